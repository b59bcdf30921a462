"""Folds stream events into a task, by the protocol's rules for `append`."""


class Fold:
    def __init__(self):
        self.id = None
        self.state = None
        self.artifacts = {}

    @classmethod
    def of_task(cls, task):
        fold = cls()
        fold.id = task.id
        fold.state = task.status.state
        fold.artifacts = {a.artifact_id: _text(a) for a in task.artifacts}
        return fold

    def take(self, event):
        kind = event.WhichOneof('payload')
        if kind == 'task':
            self.__dict__ = Fold.of_task(event.task).__dict__
        elif kind == 'status_update':
            assert event.status_update.task_id == self.id, 'an event of this task'
            self.state = event.status_update.status.state
        elif kind == 'artifact_update':
            update = event.artifact_update
            assert update.task_id == self.id, 'an event of this task'
            key = update.artifact.artifact_id
            if update.append:
                assert key in self.artifacts, f'a chunk for an unknown artifact {key}'
                self.artifacts[key] += _text(update.artifact)
            else:
                self.artifacts[key] = _text(update.artifact)
        else:
            raise AssertionError(f'not an event of a task: {event}')

    def __eq__(self, other):
        return self.__dict__ == other.__dict__

    def __repr__(self):
        return repr(self.__dict__)


def _text(artifact):
    return ''.join(part.text for part in artifact.parts)
