// Folds stream events into a task, by the protocol's rules for `append`. Events are JSON of the 0.3 wire.

import assert from 'node:assert/strict';

export class Fold {
  /** Whether chunks come without `append`, from an SDK that loses it: then all but the first of an artifact append. */
  static blind = false;

  constructor(task) {
    assert.equal(task.kind, 'task', `a stream begins with a task: ${JSON.stringify(task)}`);
    this.id = task.id;
    this.context = task.contextId;
    this.state = task.status.state;
    this.artifacts = {};
    for (const artifact of task.artifacts ?? []) this.artifacts[artifact.artifactId] = textOf(artifact.parts);
  }

  static of(events) {
    const fold = new Fold(events[0]);
    for (const event of events.slice(1)) fold.take(event);
    return fold;
  }

  take(event) {
    assert.equal(event.taskId, this.id, 'an event of this task');
    assert.equal(event.contextId, this.context, 'an event of this context');
    if (event.kind === 'status-update') {
      this.state = event.status.state;
      return;
    }
    assert.equal(event.kind, 'artifact-update', JSON.stringify(event));
    const { artifactId, parts } = event.artifact;
    if (event.append ?? (Fold.blind && artifactId in this.artifacts)) {
      assert.ok(artifactId in this.artifacts, `a chunk for an unknown artifact ${artifactId}`);
      this.artifacts[artifactId] += textOf(parts);
    } else {
      this.artifacts[artifactId] = textOf(parts);
    }
  }
}

export function textOf(parts) {
  return parts.map((part) => part.text ?? '').join('');
}
