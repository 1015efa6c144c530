/**
 * Stands between a client and its Postgres, and stops passing words on in the middle of the first
 * long message, as a client does that freezes: its connection stays open.
 */
import { type Between, startBetween } from './between.ts';

interface FreezingLine extends Between {
  readonly isFrozen: Promise<void>;
}

/** No other message of a client is as long as half of this. */
const longBytes = 1_000_000;

export async function startFreezingLine(url: string): Promise<FreezingLine> {
  const frozen = Promise.withResolvers<void>();
  const line = await startBetween(url, (client, reach) => {
    const behind = reach();
    let unanswered = 0;
    behind.on('data', (bytes) => {
      unanswered = 0;
      client.write(bytes);
    });
    client.on('data', (bytes) => {
      unanswered += bytes.length;
      if (unanswered < longBytes) behind.write(bytes);
      else frozen.resolve();
    });
  });
  return { ...line, isFrozen: frozen.promise };
}
