import { networkInterfaces } from 'node:os';
import { addressRange, addressRanges, isWithin } from '../../core/address-bytes.ts';

/**
 * How long this machine's addresses are remembered: reading them takes a tenth of a millisecond,
 * and one request may bring ten thousand addresses to check.
 */
const knownMs = 10_000;

const loopback = addressRanges('127.0.0.0/8', '::1/128');

/**
 * Recognises the door by which we ourselves are reached: our port, at any address of this machine.
 * No address of a user may lead there, whatever else may be called.
 */
export function ownDoor(ownPort: () => number): (address: Uint8Array, port: number) => boolean {
  let known = loopback;
  let readAt = Number.NEGATIVE_INFINITY;
  return (address, port) => {
    if (port !== ownPort()) return false;
    const now = performance.now();
    if (now - readAt > knownMs) {
      const all = Object.values(networkInterfaces()).flatMap((some) => some ?? []);
      known = [...loopback, ...all.flatMap((one) => addressRange(one.address) ?? [])];
      readAt = now;
    }
    return isWithin(address, known);
  };
}
