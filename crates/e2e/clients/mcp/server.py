"""A server of tools, made with its protocol's own SDK, in either of its versions: `server.py FOLDER` speaks over stdin and
stdout, `server.py FOLDER PORT` over streamable HTTP on 127.0.0.1. What it does is noted in FOLDER/acts."""

import os
import sys
from pathlib import Path

import anyio
from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, MCPServer as Server
    from mcp.server.mcpserver.exceptions import ToolError
    NEWER = True
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as Server
    from mcp.server.fastmcp.exceptions import ToolError
    NEWER = False

folder = Path(sys.argv[1])
port = int(sys.argv[2]) if len(sys.argv) > 2 else None
server = Server("tools") if NEWER or port is None else Server("tools", host="127.0.0.1", port=port)


def note(act):
    with open(folder / "acts", "a") as acts:
        acts.write(act + "\n")


class Sum(BaseModel):
    sum: int


class Order(BaseModel):
    cups: int


@server.tool(title="Shout")
def shout(text: str) -> str:
    """Says it in capitals."""
    return text.upper()


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(sum=a + b)


@server.tool()
async def work(name: str, ctx: Context) -> str:
    """Reports twice, and works until a file of that name is there."""
    try:
        await ctx.report_progress(1, 3)
        await ctx.report_progress(2, 3, "half way")
        note(f"program {name} {os.getpid()}")
        note(f"began {name}")
        while not (folder / name).exists():
            await anyio.sleep(0.02)
        return "done"
    except anyio.get_cancelled_exc_class():
        note(f"cancelled {name}")
        raise


@server.tool()
async def tea(ctx: Context) -> str:
    """Asks how many cups, and makes them."""
    note("asked")
    answer = await ctx.elicit("how many cups?", Order)
    return f"{answer.data.cups} cups" if answer.action == "accept" else f"no tea: {answer.action}"


@server.tool()
def broken() -> str:
    """Cannot do it."""
    raise ToolError("no paper")


@server.tool()
def crash() -> str:
    """Takes the whole server down."""
    print("out of ink", file=sys.stderr, flush=True)
    os._exit(3)


note(f"started {os.getpid()}")
if port is None:
    server.run("stdio")
elif NEWER:
    server.run("streamable-http", host="127.0.0.1", port=port)
else:
    server.run("streamable-http")
