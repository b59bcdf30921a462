"""Three graphs that need no model: one that says again what it was told, one that asks first, one that asks two things at once."""

import asyncio
import json
from operator import add
from typing import Annotated

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

WORDS = "one two three four five six seven eight nine ten"


class Chat(MessagesState):
    locale: str


async def speak(text, pause=None):
    """Says a text as a model would, a letter at a time."""
    return await FakeListChatModel(responses=[text], sleep=pause).ainvoke("speak")


async def reply(state: Chat):
    told = [message.text for message in state["messages"] if message.type == "human"]
    newest = told[-1]
    if newest == "fail":
        raise ValueError("out of paper")
    if newest == "wait":
        await asyncio.sleep(600)
    if newest == "slowly":
        return {"messages": [await speak(WORDS, pause=0.1)]}
    said = f"You said: {newest} ({len(told)}, {state.get('locale', 'no locale')})"
    message = await speak(said)
    message.usage_metadata = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    return {"messages": [message]}


def question(name):
    def node(state):
        return {"answers": [[name, interrupt({"question": f"{name}?"})]]}

    return node


class Asking(MessagesState):
    answers: Annotated[list, add]


def thank(state: Asking):
    return {"messages": [AIMessage(content=json.dumps(dict(state["answers"]), sort_keys=True))]}


def graph(state, nodes, then=None):
    """Nodes that run at once, and one after all of them."""
    builder = StateGraph(state)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    if then is None:
        builder.add_edge(list(nodes)[-1], END)
    else:
        builder.add_node("then", then)
        builder.add_edge(list(nodes), "then")
        builder.add_edge("then", END)
    return builder.compile()


echo = graph(Chat, {"reply": reply})
ask = graph(Asking, {"colour": question("colour")}, thank)
two = graph(Asking, {"month": question("month"), "people": question("people")}, thank)
