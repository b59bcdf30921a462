// Folds stream events into a task, by the protocol's rules for `append`.

import assert from 'node:assert/strict';

export class Fold {
  static ofTask(task) {
    const fold = new Fold();
    fold.id = task.id;
    fold.state = task.status.state;
    fold.artifacts = Object.fromEntries(task.artifacts.map((a) => [a.artifactId, textOf(a.parts)]));
    return fold;
  }

  take(event) {
    const { $case: kind, value } = event.payload;
    if (kind === 'task') {
      Object.assign(this, Fold.ofTask(value));
    } else if (kind === 'statusUpdate') {
      assert.equal(value.taskId, this.id, 'an event of this task');
      this.state = value.status.state;
    } else if (kind === 'artifactUpdate') {
      assert.equal(value.taskId, this.id, 'an event of this task');
      const { artifactId, parts } = value.artifact;
      if (value.append) {
        assert.ok(artifactId in this.artifacts, `a chunk for an unknown artifact ${artifactId}`);
        this.artifacts[artifactId] += textOf(parts);
      } else {
        this.artifacts[artifactId] = textOf(parts);
      }
    } else {
      assert.fail(`not an event of a task: ${JSON.stringify(event)}`);
    }
  }
}

export function textOf(parts) {
  return parts.map((part) => (part.content?.$case === 'text' ? part.content.value : '')).join('');
}
