/**
 * An upstream that attacks the gateway. The model's name selects what it sends: noise as fast as
 * the gateway reads it, or a normal reply. It also serves endless audio and a large image.
 * Run it with `bun bench/hostile-upstream.ts`.
 */
import { createServer, type Socket } from 'node:net';

const streamBytesMax = 128 * 1024 * 1024;
const pieceBytes = 256 * 1024;
const imageBytes = 24 * 1024 * 1024;

const eventOf = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;

/** What follows the first event of a stream, repeated. */
const noise: Readonly<Record<string, string>> = {
  'empty-lines': '\n',
  returns: '\r',
  comments: ':\n',
  'empty-objects': 'data:{}\n\n',
  'split-events': 'data:{\ndata:}\n\n',
  letters: eventOf('a'),
  words: eventOf(' together'.repeat(20)),
};

const streamHead = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n';

function reply(type: string, body: string | Buffer): Buffer {
  const head = `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
}

const message = { role: 'assistant', content: 'Hello.' };
const answer = reply(
  'application/json',
  JSON.stringify({
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
  }),
);
const image = reply('image/png', Buffer.alloc(imageBytes, '\x89PNG\r\n\x1a\n', 'latin1'));

const audioHead = 'HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\n\r\n';

/** Sends the same bytes after a head until the gateway stops reading them. */
function sendNoise(socket: Socket, text: string, head = streamHead + eventOf('Hello')): void {
  const piece = Buffer.from(text.repeat(Math.ceil(pieceBytes / text.length)));
  let sent = 0;
  const send = () => {
    while (sent < streamBytesMax && !socket.destroyed) {
      sent += piece.length;
      if (!socket.write(piece)) return;
    }
    socket.end();
  };
  socket.on('drain', send);
  socket.write(head);
  send();
}

/** Returns an image as the URL of the large image. */
function generatedImage(): string {
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return JSON.stringify({ data: [{ url: `http://127.0.0.1:${port}/image.png` }] });
}

const server = createServer((socket) => {
  let received = '';
  let missing = 0;
  socket.on('error', () => socket.destroy());
  socket.on('data', (bytes) => {
    if (missing > 0) {
      missing -= bytes.length;
      if (missing <= 0) socket.write(answer);
      return;
    }
    received += bytes.toString('latin1');
    const head = received.indexOf('\r\n\r\n');
    if (head < 0) return;
    const length = Number(/^content-length: (\d+)/im.exec(received)?.[1] ?? 0);
    const model = /"model":"([\w-]+)"/.exec(received)?.[1] ?? '';
    // The model of a long body may not have arrived yet. Long bodies get a normal reply.
    missing = length - (received.length - head - 4);
    const isImage = received.startsWith('GET ');
    const text = noise[model];
    if (missing > 0 && missing < pieceBytes) {
      missing = 0;
      return;
    }
    received = '';
    if (isImage) socket.write(image);
    else if (text !== undefined) sendNoise(socket, text);
    else if (model === 'voice') sendNoise(socket, 'audio', audioHead);
    else if (model === 'drawing') socket.write(reply('application/json', generatedImage()));
    else if (missing <= 0) socket.write(answer);
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  process.stdout.write(`ready at http://127.0.0.1:${port}\n`);
});
