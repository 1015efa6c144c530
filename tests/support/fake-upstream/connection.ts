/** A connection of the fake upstream. Reads one request at a time and sends its scripted answer. */

import type { Socket } from 'bun';
import type { Behavior } from './behavior.ts';
import { deliver } from './deliver.ts';
import type { LoggedRequest } from './logged-request.ts';
import { type ParsedRequest, parseRequest, requestFromPath } from './parsed-request.ts';
import { Player, type PlayerContext } from './player.ts';
import { replyTo } from './reply.ts';
import type { RequestLog } from './request-log.ts';
import { type RequestHead, RequestReader } from './request-reader.ts';

export interface ConnectionHost extends Omit<PlayerContext, 'done'> {
  /** The log of requests to the fake's control paths, which aren't in the main log. */
  readonly controlLog: RequestLog;
  /** Returns the script for a path if it answers before the body is read. */
  earlyScript(path: string): Behavior | undefined;
  /** Takes the next scripted behavior for this request. */
  nextScript(path: string, model: string | undefined): Behavior;
  control(path: string, body: Uint8Array): Promise<Behavior>;
}

interface Exchange {
  readonly head: RequestHead;
  readonly log: RequestLog;
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
  private readonly host: ConnectionHost;
  private readonly reader: RequestReader;
  private current: Exchange | undefined;
  /** Assigned on the first request to a path that isn't a control path. */
  private number = 0;
  private closed = false;

  constructor(socket: Socket<unknown>, host: ConnectionHost) {
    this.socket = socket;
    this.host = host;
    this.reader = new RequestReader({
      head: (head) => this.onHead(head),
      body: (bytes) => this.onBody(bytes),
      malformed: (reason) => this.onMalformed(reason),
    });
  }

  /** True while a request from a gateway is being answered. */
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

  connectionClosed(): void {
    this.closed = true;
    if (this.current !== undefined) {
      const { log, entry, player } = this.current;
      player?.connectionClosed();
      // Without a player, the client disconnected before its request was read.
      if (entry.outcome === 'open') log.end(entry, 'client-disconnected');
      log.closed(entry);
    }
    if (this.number > 0) this.host.log.connectionClosed();
  }

  private onHead(head: RequestHead): void {
    const log = isControl(head) ? this.host.controlLog : this.host.log;
    if (this.number === 0 && !isControl(head)) this.number = log.connectionOpened();
    const entry = log.begin(head, this.number);
    this.current = { head, log, entry, bodyIn: false, answered: false };
    if (head.headers.expect?.toLowerCase() === '100-continue') {
      this.socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    }
    const early = isControl(head) ? undefined : this.host.earlyScript(head.path);
    if (early !== undefined) this.answer(this.current, requestFromPath(head.path), early);
  }

  private onBody(raw: Uint8Array): void {
    const { current } = this;
    if (current === undefined) throw new Error('A body arrived without a head.');
    current.bodyIn = true;
    current.log.bodyRead(current.entry, raw);
    void this.parse(current, raw);
  }

  private async parse(current: Exchange, raw: Uint8Array): Promise<void> {
    const { head, log, entry } = current;
    const request = await parseRequest(head, raw);
    log.parsed(entry, request);
    if (this.closed) return;
    if (current.player !== undefined) return this.acceptNext(current);
    const behavior = isControl(head)
      ? await this.host.control(head.path, raw)
      : this.host.nextScript(head.path, request.model);
    if (!this.closed) this.answer(current, request, behavior);
  }

  private answer(current: Exchange, request: ParsedRequest, behavior: Behavior): void {
    const { log, entry } = current;
    const { answer, delivery } = behavior;
    const reply = replyTo(request, answer, entry.id);
    if (delivery.stop?.afterEvents !== 'before-headers') entry.status = reply.status;
    const { ticker } = this.host;
    const onOpen = (gate: string, run: () => void) => this.host.onOpen(gate, run);
    const done = () => {
      current.answered = true;
      this.acceptNext(current);
    };
    const steps = deliver(reply, delivery, entry.id);
    current.player = new Player(this.socket, entry, steps, { log, ticker, onOpen, done });
    current.player.play();
  }

  /** Accepts the next request once this one has been read and answered. */
  private acceptNext(current: Exchange): void {
    if (!current.bodyIn || !current.answered) return;
    if (current.head.headers.connection?.toLowerCase() === 'close') this.socket.end();
    else this.reader.next();
  }

  private onMalformed(reason: string): void {
    this.host.log.malformed(reason);
    this.socket.write(`HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n${reason}\n`);
    this.socket.end();
  }
}
