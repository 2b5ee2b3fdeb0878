"""The asyncio client: the same classes and methods as `tokenloom`, to be awaited or iterated over with `async for`."""

from tokenloom.aio.client import Client, TokenStream
from tokenloom.aio.conversation import Conversation, Reply, StepsReply
from tokenloom.aio.session import Session

__all__ = ["Client", "Conversation", "Reply", "Session", "StepsReply", "TokenStream"]
