/** Which behaviour comes next: by model, else by path, else the script for '*', else "ok". */

import { say } from './answers.ts';
import type { Behaviour } from './behaviour.ts';

export class Scripts {
  private queues = new Map<string, Behaviour[]>();

  /** A list is played in order, one per call; its last repeats. */
  set(key: string, behaviours: readonly Behaviour[]): void {
    if (behaviours.length === 0) throw new RangeError('a script needs at least one behaviour');
    this.queues.set(key, [...behaviours]);
  }

  /** The script for a path, if it may answer before the body; scripts by model need the body. */
  early(path: string): Behaviour | undefined {
    const queue = this.queues.get(plain(path)) ?? this.queues.get('*');
    return queue?.[0]?.delivery.early === true ? taken(queue) : undefined;
  }

  next(path: string, model: string | undefined): Behaviour {
    const byModel = model === undefined ? undefined : this.queues.get(model);
    const queue = byModel ?? this.queues.get(plain(path)) ?? this.queues.get('*');
    return (queue && taken(queue)) ?? say('ok');
  }

  clear(): void {
    this.queues.clear();
  }
}

function plain(path: string): string {
  return path.split('?')[0] ?? path;
}

function taken(queue: Behaviour[]): Behaviour | undefined {
  return queue.length > 1 ? queue.shift() : queue[0];
}
