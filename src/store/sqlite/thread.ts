import { strict as assert } from 'node:assert';
import { waitingCallsMax } from '../database.ts';
import { tooBusy } from '../turns.ts';
import { statementMessage } from './file-failure.ts';
import type { Outcome, Question, SqlAnswer } from './messages.ts';

interface Asker {
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: Error) => void;
}

/** The main thread's end of one SQLite worker: questions go out, answers come back in order. */
export class SqliteThread {
  readonly #path: string;
  readonly #worker: Worker;
  readonly #askers: Asker[] = [];
  readonly #onEnd: () => void;
  #ended: Error | undefined;

  private constructor(path: string, onEnd: () => void) {
    this.#path = path;
    this.#onEnd = onEnd;
    this.#worker = new Worker(workerUrl());
    this.#worker.onmessage = (message: MessageEvent<SqlAnswer>) => this.#settle(message.data);
    this.#worker.onerror = (event) => {
      this.#end(new Error(`The SQLite thread failed: ${event.message}`));
    };
    this.#worker.addEventListener('close', () => {
      this.#end(new Error('The SQLite thread has ended.'));
    });
  }

  static async open(
    path: string,
    role: 'writer' | 'reader',
    onEnd: () => void,
  ): Promise<SqliteThread> {
    const thread = new SqliteThread(path, onEnd);
    try {
      await thread.ask({ kind: 'open', path, role });
    } catch (thrown) {
      thread.#worker.terminate();
      throw thrown;
    }
    return thread;
  }

  ask(question: Question): Promise<Outcome> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    if (this.#askers.length >= waitingCallsMax) {
      return Promise.reject(tooBusy(`${this.#askers.length} calls are waiting already`));
    }
    return new Promise((resolve, reject) => {
      this.#askers.push({ resolve, reject });
      this.#worker.postMessage(question);
    });
  }

  async close(): Promise<void> {
    if (this.#ended !== undefined) return;
    const closed = this.ask({ kind: 'close' });
    this.#ended = new Error('The database is closed.');
    try {
      await closed;
    } finally {
      this.#worker.terminate();
    }
  }

  #settle(answer: SqlAnswer): void {
    const asker = this.#askers.shift();
    assert(asker, 'A SQLite answer without a question.');
    if (answer.ok) {
      asker.resolve(answer.outcome);
      return;
    }
    const message = statementMessage(this.#path, answer.code, answer.message);
    asker.reject(Object.assign(new Error(message), { code: answer.code }));
  }

  #end(error: Error): void {
    this.#ended ??= error;
    this.#onEnd();
    for (const asker of this.#askers.splice(0)) asker.reject(error);
  }
}

/**
 * Inside a compiled executable every module lives in one file at the virtual root, and the worker
 * stands where `bun build --compile src/main.ts src/store/sqlite/worker.ts` puts it.
 */
function workerUrl(): URL {
  const compiled = import.meta.url.includes('/$bunfs/') || import.meta.url.includes('/~BUN/');
  return compiled
    ? new URL('./store/sqlite/worker.js', import.meta.url)
    : new URL('./worker.ts', import.meta.url);
}
