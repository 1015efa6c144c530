/** Selects the next behavior by model, path, or '*'. Without a script, the answer is "ok". */

import { chatAnswer } from './answers.ts';
import type { Behavior } from './behavior.ts';

export class Scripts {
  private queues = new Map<string, Behavior[]>();

  /** Sets the behaviors of the next calls. The last behavior repeats. */
  set(key: string, behaviors: readonly Behavior[]): void {
    if (behaviors.length === 0) throw new RangeError('A script needs at least one behavior.');
    this.queues.set(key, [...behaviors]);
  }

  /** Takes the script for a path if it answers before the body. */
  early(path: string): Behavior | undefined {
    const queue = this.queues.get(withoutQuery(path)) ?? this.queues.get('*');
    return queue?.[0]?.delivery.early === true ? takeNext(queue) : undefined;
  }

  next(path: string, model: string | undefined): Behavior {
    const byModel = model === undefined ? undefined : this.queues.get(model);
    const queue = byModel ?? this.queues.get(withoutQuery(path)) ?? this.queues.get('*');
    return (queue && takeNext(queue)) ?? chatAnswer('ok');
  }

  clear(): void {
    this.queues.clear();
  }
}

function withoutQuery(path: string): string {
  return path.split('?')[0] ?? path;
}

function takeNext(queue: Behavior[]): Behavior | undefined {
  return queue.length > 1 ? queue.shift() : queue[0];
}
