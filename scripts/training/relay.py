"""Passes TCP connections on, with a delay each way: relay.py MILLISECONDS LISTEN:TO...

Each LISTEN:TO is a pair of ports on 127.0.0.1. What arrives at LISTEN goes on to TO after the delay, and back likewise, at any speed: the
delay is that of distance, not of a narrow line.
"""

import asyncio
import sys

PIECE = 1 << 18


async def carry(reader, writer, delay):
    pieces = asyncio.Queue(maxsize=1024)
    clock = asyncio.get_running_loop().time

    async def deliver():
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(max(0.0, due - clock()))
            if not piece:
                writer.close()
                return
            writer.write(piece)
            await writer.drain()

    delivery = asyncio.create_task(deliver())
    piece = True
    while piece:
        try:
            piece = await reader.read(PIECE)
        except ConnectionError:
            piece = b""
        await pieces.put((clock() + delay, piece))
    await asyncio.gather(delivery, return_exceptions=True)


async def main():
    delay = float(sys.argv[1]) / 1000

    def accept(port):
        async def connected(reader, writer):
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(carry(reader, onward_writer, delay), carry(onward_reader, writer, delay))

        return connected

    for pair in sys.argv[2:]:
        listen, to = map(int, pair.split(":"))
        await asyncio.start_server(accept(to), "127.0.0.1", listen)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
