/** Which behavior comes next: by model, else by path, else the script for '*', else "ok". */

import { chatAnswer } from './answers.ts';
import type { Behavior } from './behavior.ts';

export class Scripts {
  private queues = new Map<string, Behavior[]>();

  /** A list is played in order, one per call; its last repeats. */
  set(key: string, behaviors: readonly Behavior[]): void {
    if (behaviors.length === 0) throw new RangeError('a script needs at least one behavior');
    this.queues.set(key, [...behaviors]);
  }

  /** The script for a path, if it may answer before the body; scripts by model need the body. */
  early(path: string): Behavior | undefined {
    const queue = this.queues.get(plain(path)) ?? this.queues.get('*');
    return queue?.[0]?.delivery.early === true ? taken(queue) : undefined;
  }

  next(path: string, model: string | undefined): Behavior {
    const byModel = model === undefined ? undefined : this.queues.get(model);
    const queue = byModel ?? this.queues.get(plain(path)) ?? this.queues.get('*');
    return (queue && taken(queue)) ?? chatAnswer('ok');
  }

  clear(): void {
    this.queues.clear();
  }
}

function plain(path: string): string {
  return path.split('?')[0] ?? path;
}

function taken(queue: Behavior[]): Behavior | undefined {
  return queue.length > 1 ? queue.shift() : queue[0];
}
