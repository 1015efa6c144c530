import type { BytesAnswer } from '../../upstream/bytes.ts';

/** What was handed to the connection needs a moment to leave before it is cut. */
const leaveMs = 20;

/**
 * Bytes as a connection takes them. When they break off, the connection is cut behind the last of
 * them: a clean end would make a part look like the whole. The runtime prints whatever a body fails
 * with, and the log has said it already, so this one fails with nothing.
 */
export function cutOnFailure(answer: BytesAnswer): AsyncIterableIterator<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => answer.next().catch(cut),
    return: () => answer.return(),
  };
}

async function cut(): Promise<never> {
  await Bun.sleep(leaveMs);
  return Promise.reject(null);
}
