"""A server of A2A made with its makers' SDK: `peer.py PORT FOLDER [GRPC_PORT]`, with the adapter `sdk` of one version on PYTHONPATH.

The same agent answers over JSON-RPC below /rpc, over HTTP+JSON below /rest and, if it has a port for that, over gRPC; the card of the
last is below /grpc. The first word it is told says what it does:

  ask          asks "what?" and completes with the answer
  slow         works until it is cancelled
  gate NAME    works until the file NAME is in FOLDER, then completes with "finished"
  fail         fails with "out of luck"
  refuse       is an error of the request
  chunks       says "one two three" in three chunks
  (any other)  is said again

What it began and what was cancelled is a line each in FOLDER/acts.
"""

import asyncio
import pathlib
import sys

import grpc
import sdk
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater


class Agent(AgentExecutor):
    def __init__(self, folder):
        self.folder = folder
        self.told = {}

    def act(self, *words):
        with open(self.folder / "acts", "a") as acts:
            acts.write(" ".join(words) + "\n")

    async def execute(self, context, event_queue):
        text = context.get_user_input()
        if text == "refuse":
            raise sdk.invalid_params("no such thing here")
        answers = context.current_task is not None
        if not answers:
            await event_queue.enqueue_event(sdk.new_task(context))
        self.told[context.task_id] = text
        self.act("began", text)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()

        def said(words):
            return updater.new_agent_message([sdk.text_part(words)])

        async def artifact(words, **how):
            await updater.add_artifact([sdk.text_part(words)], name="answer", **how)

        verb, _, rest = text.partition(" ")
        if answers:
            await artifact(f"answered {text}")
        elif verb == "ask":
            await updater.requires_input(said("what?"))
            return
        elif verb == "slow":
            await asyncio.Event().wait()
        elif verb == "gate":
            while not (self.folder / rest).exists():
                await asyncio.sleep(0.02)
            await artifact("finished")
        elif verb == "fail":
            await updater.failed(said("out of luck"))
            return
        elif verb == "chunks":
            for index, words in enumerate(["one ", "two ", "three"]):
                await artifact(words, artifact_id="chunked", append=index > 0, last_chunk=index == 2)
        else:
            await artifact(text)
        await updater.complete()

    async def cancel(self, context, event_queue):
        self.act("cancelled", self.told[context.task_id])
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def main(port, folder, grpc_port=None):
    agent = Agent(pathlib.Path(folder))
    if grpc_port:
        server = grpc.aio.server()
        sdk.add_service(server, f"127.0.0.1:{grpc_port}", agent)
        assert server.add_insecure_port(f"127.0.0.1:{grpc_port}") == int(grpc_port), "the port of gRPC is free"
        await server.start()
    app = sdk.app(f"http://127.0.0.1:{port}", agent, grpc_port and f"127.0.0.1:{grpc_port}")
    await uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=int(port), log_level="info")).serve()


asyncio.run(main(*sys.argv[1:]))
