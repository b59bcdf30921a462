"""Folds stream events into a task, by the protocol's rules for `append`. Events are JSON of the 0.3 wire."""


class Fold:
    def __init__(self, task):
        assert task['kind'] == 'task', f'a stream begins with a task: {task}'
        self.id = task['id']
        self.context = task['contextId']
        self.state = task['status']['state']
        self.artifacts = {a['artifactId']: text_of(a['parts']) for a in task.get('artifacts', [])}

    def take(self, event):
        assert event['taskId'] == self.id and event['contextId'] == self.context, 'an event of this task'
        if event['kind'] == 'status-update':
            self.state = event['status']['state']
        elif event['kind'] == 'artifact-update':
            key = event['artifact']['artifactId']
            if event.get('append'):
                assert key in self.artifacts, f'a chunk for an unknown artifact {key}'
                self.artifacts[key] += text_of(event['artifact']['parts'])
            else:
                self.artifacts[key] = text_of(event['artifact']['parts'])
        else:
            raise AssertionError(f'not an event of a task: {event}')

    def __eq__(self, other):
        return self.__dict__ == other.__dict__

    def __repr__(self):
        return repr(self.__dict__)


def text_of(parts):
    return ''.join(part.get('text', '') for part in parts)
