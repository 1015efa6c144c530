/** One connection of the fake upstream: requests in, scripted answers out, one at a time. */

import type { Socket } from 'bun';
import type { Behavior } from './behavior.ts';
import { deliver } from './deliver.ts';
import type { LoggedRequest } from './logged-request.ts';
import { type ParsedRequest, parseRequest, requestFromPath } from './parsed-request.ts';
import { Player, type Stage } from './player.ts';
import { replyTo } from './reply.ts';
import type { RequestLog } from './request-log.ts';
import { type RequestHead, RequestReader } from './request-reader.ts';

export interface ConnectionHost extends Omit<Stage, 'done'> {
  /** The book for requests to the fake's own paths, so that they do not show in the real book. */
  readonly controlBook: RequestLog;
  /** The script for a path whose body is not read yet, if that script wants to answer early. */
  earlyScript(path: string): Behavior | undefined;
  /** The next scripted behavior for this request; asking uses it up. */
  nextScript(path: string, model: string | undefined): Behavior;
  control(path: string, body: Uint8Array): Promise<Behavior>;
}

interface Exchange {
  readonly head: RequestHead;
  readonly book: RequestLog;
  readonly entry: LoggedRequest;
  player?: Player;
  bodyIn: boolean;
  answered: boolean;
}

function isControl(head: RequestHead): boolean {
  return head.path.startsWith('/__');
}

export class Connection {
  private readonly socket: Socket<unknown>;
  private readonly house: ConnectionHost;
  private readonly reader: RequestReader;
  private current: Exchange | undefined;
  /** Assigned at the first request that is not to the fake's own paths. */
  private number = 0;
  private closed = false;

  constructor(socket: Socket<unknown>, house: ConnectionHost) {
    this.socket = socket;
    this.house = house;
    this.reader = new RequestReader({
      head: (head) => this.onHead(head),
      body: (bytes) => this.onBody(bytes),
      malformed: (reason) => this.onMalformed(reason),
    });
  }

  /** Whether an answer to a gateway is under way. */
  get busy(): boolean {
    const { current } = this;
    return current !== undefined && !current.answered && !isControl(current.head);
  }

  data(bytes: Buffer): void {
    this.reader.feed(bytes);
  }

  drain(): void {
    this.current?.player?.play();
  }

  gone(): void {
    this.closed = true;
    if (this.current !== undefined) {
      const { book, entry, player } = this.current;
      player?.gone();
      // If there is no player, the client left before its request was read.
      if (entry.outcome === 'open') book.end(entry, 'client-disconnected');
      book.closed(entry);
    }
    if (this.number > 0) this.house.book.connectionClosed();
  }

  private onHead(head: RequestHead): void {
    const book = isControl(head) ? this.house.controlBook : this.house.book;
    if (this.number === 0 && !isControl(head)) this.number = book.connectionOpened();
    const entry = book.begin(head, this.number);
    this.current = { head, book, entry, bodyIn: false, answered: false };
    if (head.headers.expect?.toLowerCase() === '100-continue') {
      this.socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    }
    const early = isControl(head) ? undefined : this.house.earlyScript(head.path);
    if (early !== undefined) this.answer(this.current, requestFromPath(head.path), early);
  }

  private onBody(raw: Uint8Array): void {
    const { current } = this;
    if (current === undefined) throw new Error('a body came without its head');
    current.bodyIn = true;
    current.book.bodyRead(current.entry, raw);
    void this.understand(current, raw);
  }

  private async understand(current: Exchange, raw: Uint8Array): Promise<void> {
    const { head, book, entry } = current;
    const asked = await parseRequest(head, raw);
    book.understood(entry, asked);
    if (this.closed) return;
    if (current.player !== undefined) return this.moveOn(current);
    const behavior = isControl(head)
      ? await this.house.control(head.path, raw)
      : this.house.nextScript(head.path, asked.model);
    if (!this.closed) this.answer(current, asked, behavior);
  }

  private answer(current: Exchange, asked: ParsedRequest, behavior: Behavior): void {
    const { book, entry } = current;
    const { answer, delivery } = behavior;
    const reply = replyTo(asked, answer, entry.id);
    if (delivery.stop?.afterEvents !== 'before-headers') entry.status = reply.status;
    const { ticker } = this.house;
    const onOpen = (gate: string, run: () => void) => this.house.onOpen(gate, run);
    const done = () => {
      current.answered = true;
      this.moveOn(current);
    };
    const steps = deliver(reply, delivery, entry.id);
    current.player = new Player(this.socket, entry, steps, { book, ticker, onOpen, done });
    current.player.play();
  }

  /** Ready for the next request once this one is both read and answered. */
  private moveOn(current: Exchange): void {
    if (!current.bodyIn || !current.answered) return;
    if (current.head.headers.connection?.toLowerCase() === 'close') this.socket.end();
    else this.reader.next();
  }

  private onMalformed(reason: string): void {
    this.house.book.malformed(reason);
    this.socket.write(`HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n${reason}\n`);
    this.socket.end();
  }
}
