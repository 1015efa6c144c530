/** Plays the steps of one answer on a socket, at the reader's pace. */

import type { Socket } from 'bun';
import type { Step } from './deliver.ts';
import type { LoggedRequest, Outcome } from './logged-request.ts';
import type { RequestLog } from './request-log.ts';
import type { Part } from './sse.ts';
import type { Ticker } from './ticker.ts';

export interface Stage {
  readonly book: RequestLog;
  readonly ticker: Ticker;
  /** Calls `run` once the gate is open, at once if it is; returns a function that cancels. */
  onOpen(gate: string, run: () => void): () => void;
  /** The answer has ended and the connection can be used again. */
  done(): void;
}

const nothing = new Uint8Array();

export class Player {
  private readonly socket: Socket<unknown>;
  private readonly entry: LoggedRequest;
  private readonly steps: Iterator<Step>;
  private readonly stage: Stage;
  private unsent: Uint8Array = nothing;
  private part: Part | undefined;
  private waiting = false;
  private cancelWait: () => void = () => {};
  private over = false;

  constructor(socket: Socket<unknown>, entry: LoggedRequest, steps: Iterator<Step>, stage: Stage) {
    this.socket = socket;
    this.entry = entry;
    this.steps = steps;
    this.stage = stage;
  }

  /** Goes on until the reader is too slow, a wait begins or the answer is over. */
  play(): void {
    while (!this.over && !this.waiting && this.flush()) {
      const next = this.steps.next();
      if (next.done === true) return;
      this.take(next.value);
    }
  }

  /** The connection is closed: the rest of the answer is not sent. */
  gone(): void {
    this.conclude('client-disconnected');
  }

  private take(step: Step): void {
    switch (step.do) {
      case 'write':
        this.unsent = step.bytes;
        this.part = step.part;
        return;
      case 'wait':
        this.wait((run) => this.stage.ticker.after(step.delayMs, run));
        return;
      case 'gate':
        this.wait((run) => this.stage.onOpen(step.name, run));
        return;
      case 'hang':
        this.waiting = true;
        this.stage.book.hangs(this.entry);
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
        this.stage.done();
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

  /** Hands waiting bytes to the kernel; returns whether it has taken them all. */
  private flush(): boolean {
    if (this.unsent.length > 0) {
      const count = Math.max(0, this.socket.write(this.unsent));
      this.stage.book.sentBytes(this.entry, count);
      if (count < this.unsent.length) {
        this.unsent = this.unsent.subarray(count);
        this.entry.pauses += 1;
        return false;
      }
      this.unsent = nothing;
    }
    if (this.part !== undefined) this.stage.book.sentPart(this.entry, this.part);
    this.part = undefined;
    return true;
  }

  private conclude(outcome: Outcome): void {
    if (this.over) return;
    this.over = true;
    this.cancelWait();
    this.stage.book.end(this.entry, outcome);
  }
}
