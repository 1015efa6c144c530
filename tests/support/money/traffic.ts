import { isObject, parseJson } from '../../../src/core/json.ts';
import type { Gateway } from '../gateway.ts';
import { waitUntil } from '../wait-until.ts';

/** A request whose client received the full reply or the last event of its stream. */
interface SeenEnd {
  readonly user: string;
  readonly requestId: string;
}

/** An error response. */
export interface Rejection {
  readonly status: number;
  readonly type: unknown;
  readonly at: number;
}

/** Clients that each send requests one after another, alternating between streams and replies. */
export class Traffic {
  readonly ends: SeenEnd[] = [];
  readonly rejections: Rejection[] = [];
  /** Streams that ended with an error event. */
  readonly broken: unknown[] = [];
  #stopped = false;
  #count = 0;
  #sending = 0;

  /** Sends requests until stopped or until the gateway ends. Each mode has its own model. */
  async send(
    gateway: Gateway,
    clients: number,
    streamingModel: string,
    replyModel: string,
  ): Promise<void> {
    this.#stopped = false;
    this.#sending += clients;
    const loops = Array.from({ length: clients }, async () => {
      while (!this.#stopped) {
        const user = `client-${++this.#count}`;
        const stream = this.#count % 2 === 0;
        try {
          await this.#sendOne(gateway, user, stream ? streamingModel : replyModel, stream);
        } catch {
          break;
        }
      }
      this.#sending -= 1;
    });
    await Promise.all(loops);
  }

  /** Waits until this many more answers have been received. */
  async untilMore(count: number): Promise<void> {
    const goal = this.ends.length + count;
    const isReached = () => {
      if (this.ends.length >= goal) return true;
      if (this.#sending > 0) return false;
      throw new Error('All clients have stopped because the gateway has ended.');
    };
    await waitUntil(isReached, { everyMs: 10, withinMs: 60_000 });
  }

  stop(): void {
    this.#stopped = true;
  }

  async #sendOne(gateway: Gateway, user: string, model: string, stream: boolean): Promise<void> {
    const messages = [{ role: 'user', content: `Words from ${user}` }];
    const answer = await gateway.chat({ model, user, messages, stream });
    const requestId = answer.headers.get('x-request-id') ?? '';
    if (answer.status !== 200) {
      const { status, error } = answer;
      this.rejections.push({ status, type: error.type, at: performance.now() });
      // Wait before the next request, as real clients do after an error.
      await Bun.sleep(20);
    } else if (stream ? answer.text.endsWith('data: [DONE]\n\n') : isObject(answer.body.usage)) {
      this.ends.push({ user, requestId });
    } else if (stream && answer.text.includes('"error"')) {
      const last = parseJson(answer.text.trim().split('\n').at(-1)?.slice('data: '.length) ?? '');
      this.broken.push(isObject(last) ? last.error : last);
    }
  }
}
