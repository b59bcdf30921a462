// Reads the `id:` lines of event streams, which the SDK does not show.
//
// The SDK sends any header (`serviceParameters` of a call), so `Last-Event-ID` goes through its own calls. It drops the
// ids of the frames it reads, though; this `fetch` looks at the bytes on their way and remembers them, in order: the n-th
// id belongs to the n-th event the SDK yields.

export class Ids {
  seen = [];

  fetch = async (...args) => {
    const response = await fetch(...args);
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
    const seen = (this.seen = []);
    const decoder = new TextDecoder();
    let rest = '';
    const watch = new TransformStream({
      transform(piece, controller) {
        const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
        rest = lines.pop();
        for (const line of lines) {
          if (line.startsWith('id:')) seen.push(line.slice(3).trim());
        }
        controller.enqueue(piece);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(watch), { status, statusText, headers });
  };
}
