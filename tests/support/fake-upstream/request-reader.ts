// Parses the bytes of HTTP/1.1 requests. This parser is our own so that the fake can answer before
// the body arrives and detect incomplete requests, and shares no code with the gateway.

export interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** Names are lowercase, and repeated headers are joined with a comma. */
  readonly headers: Readonly<Record<string, string>>;
}

interface RequestEvents {
  head(head: RequestHead): void;
  body(bytes: Uint8Array): void;
  malformed(reason: string): void;
}

/** Far above what any provider accepts. */
const headBytesMax = 256 * 1024;
const bodyBytesMax = 600 * 1024 * 1024;

type State =
  | 'head'
  | 'sized-body'
  | 'chunk-size'
  | 'chunk-data'
  | 'trailers'
  | 'waiting'
  | 'broken';

export class RequestReader {
  private state: State = 'head';
  private pending: Buffer = Buffer.alloc(0);
  private chunks: Uint8Array[] = [];
  private bodyBytes = 0;
  private expectedBytes = 0;
  private readonly events: RequestEvents;

  constructor(events: RequestEvents) {
    this.events = events;
  }

  feed(bytes: Buffer): void {
    this.pending = this.pending.length === 0 ? bytes : Buffer.concat([this.pending, bytes]);
    this.run();
  }

  /** Called when an answer was sent. The next, pipelined request is read only then. */
  next(): void {
    if (this.state !== 'waiting') return;
    this.state = 'head';
    this.run();
  }

  private run(): void {
    while (this.step());
  }

  /** Reads one part of the input. Returns false if it is incomplete. */
  private step(): boolean {
    switch (this.state) {
      case 'head':
        return this.readHead();
      case 'sized-body':
      case 'chunk-data':
        return this.readData();
      case 'chunk-size':
        return this.readChunkSize();
      case 'trailers':
        return this.readTrailers();
      case 'waiting':
      case 'broken':
        return false;
    }
  }

  private readHead(): boolean {
    const end = this.pending.indexOf('\r\n\r\n');
    if (end < 0) {
      return this.pending.length > headBytesMax ? this.fail('head too long') : false;
    }
    const head = parseHead(this.take(end + 4).toString('latin1'));
    if (head === undefined) return this.fail('bad request line or header');
    this.chunks = [];
    this.bodyBytes = 0;
    const length = head.headers['content-length'];
    const chunked = head.headers['transfer-encoding'] !== undefined;
    if (chunked && length !== undefined) return this.fail('both a length and chunks');
    if (length !== undefined && !/^\d+$/.test(length)) return this.fail('bad content-length');
    this.expectedBytes = Number(length ?? 0);
    this.state = chunked ? 'chunk-size' : 'sized-body';
    this.events.head(head);
    if (this.state === 'sized-body' && this.expectedBytes === 0) this.finishBody();
    return true;
  }

  private readData(): boolean {
    if (this.pending.length === 0) return false;
    const chunk = this.take(Math.min(this.expectedBytes, this.pending.length));
    this.chunks.push(chunk);
    this.bodyBytes += chunk.length;
    this.expectedBytes -= chunk.length;
    if (this.bodyBytes > bodyBytesMax) return this.fail('body too long');
    if (this.expectedBytes > 0) return true;
    if (this.state === 'sized-body') this.finishBody();
    else this.state = 'chunk-size';
    return true;
  }

  private readChunkSize(): boolean {
    const line = this.takeLine();
    if (line === undefined) return false;
    // The line break after a chunk's data is read as an empty line here.
    if (line === '') return true;
    const size = /^([0-9a-f]+)\s*(;.*)?$/i.exec(line)?.[1];
    if (size === undefined) return this.fail('bad chunk size');
    this.expectedBytes = Number.parseInt(size, 16);
    this.state = this.expectedBytes === 0 ? 'trailers' : 'chunk-data';
    return true;
  }

  private readTrailers(): boolean {
    const line = this.takeLine();
    if (line === undefined) return false;
    if (line === '') this.finishBody();
    return true;
  }

  private finishBody(): void {
    this.state = 'waiting';
    const [only] = this.chunks;
    const body = this.chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.chunks);
    this.chunks = [];
    this.events.body(body);
  }

  private take(count: number): Buffer {
    const bytes = this.pending.subarray(0, count);
    this.pending = this.pending.subarray(count);
    return bytes;
  }

  private takeLine(): string | undefined {
    const end = this.pending.indexOf('\r\n');
    if (end < 0) return undefined;
    return this.take(end + 2).toString('latin1', 0, end);
  }

  private fail(reason: string): false {
    this.state = 'broken';
    this.events.malformed(reason);
    return false;
  }
}

function parseHead(text: string): RequestHead | undefined {
  const [first = '', ...lines] = text.slice(0, -4).split('\r\n');
  const request = /^([A-Z]+) (\S+) HTTP\/1\.[01]$/.exec(first);
  if (request === null) return undefined;
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const header = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*?)[ \t]*$/.exec(line);
    if (header === null) return undefined;
    const name = (header[1] ?? '').toLowerCase();
    const value = header[2] ?? '';
    const earlier = headers[name];
    headers[name] = earlier === undefined ? value : `${earlier}, ${value}`;
  }
  return { method: request[1] ?? '', path: request[2] ?? '', headers };
}
