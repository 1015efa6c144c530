/** Executes the steps of an answer on a socket, as fast as the client reads. */

import type { Socket } from 'bun';
import type { Step } from './deliver.ts';
import type { LoggedRequest, Outcome } from './logged-request.ts';
import type { RequestLog } from './request-log.ts';
import type { Part } from './sse.ts';
import type { Ticker } from './ticker.ts';

export interface PlayerContext {
  readonly log: RequestLog;
  readonly ticker: Ticker;
  /** Calls `run` once the gate is open. Returns a function that cancels. */
  onOpen(gate: string, run: () => void): () => void;
  /** Called when the answer has ended and the connection can be reused. */
  done(): void;
}

const nothing = new Uint8Array();

export class Player {
  private readonly socket: Socket<unknown>;
  private readonly entry: LoggedRequest;
  private readonly steps: Iterator<Step>;
  private readonly context: PlayerContext;
  private unsent: Uint8Array = nothing;
  private part: Part | undefined;
  private waiting = false;
  private cancelWait: () => void = () => {};
  private over = false;

  constructor(
    socket: Socket<unknown>,
    entry: LoggedRequest,
    steps: Iterator<Step>,
    stage: PlayerContext,
  ) {
    this.socket = socket;
    this.entry = entry;
    this.steps = steps;
    this.context = stage;
  }

  /** Continues until the reader is too slow, a wait begins, or the answer ends. */
  play(): void {
    while (!this.over && !this.waiting && this.flush()) {
      const next = this.steps.next();
      if (next.done === true) return;
      this.take(next.value);
    }
  }

  /** Called when the connection was closed. The remaining steps are dropped. */
  connectionClosed(): void {
    this.conclude('client-disconnected');
  }

  private take(step: Step): void {
    switch (step.do) {
      case 'write':
        this.unsent = step.bytes;
        this.part = step.part;
        return;
      case 'wait':
        this.wait((run) => this.context.ticker.after(step.delayMs, run));
        return;
      case 'gate':
        this.wait((run) => this.context.onOpen(step.name, run));
        return;
      case 'hang':
        this.waiting = true;
        this.context.log.markHung(this.entry);
        return;
      case 'reset':
        this.conclude('reset');
        this.socket.terminate();
        return;
      case 'close':
        this.conclude(step.outcome);
        this.socket.end();
        return;
      case 'finish':
        this.conclude(step.outcome);
        this.context.done();
        return;
    }
  }

  private wait(begin: (run: () => void) => () => void): void {
    this.waiting = true;
    this.cancelWait = begin(() => {
      this.waiting = false;
      this.play();
    });
  }

  /** Writes pending bytes to the socket. Returns true if it accepted all of them. */
  private flush(): boolean {
    if (this.unsent.length > 0) {
      const count = Math.max(0, this.socket.write(this.unsent));
      this.context.log.sentBytes(this.entry, count);
      if (count < this.unsent.length) {
        this.unsent = this.unsent.subarray(count);
        this.entry.pauses += 1;
        return false;
      }
      this.unsent = nothing;
    }
    if (this.part !== undefined) this.context.log.sentPart(this.entry, this.part);
    this.part = undefined;
    return true;
  }

  private conclude(outcome: Outcome): void {
    if (this.over) return;
    this.over = true;
    this.cancelWait();
    this.context.log.end(this.entry, outcome);
  }
}
