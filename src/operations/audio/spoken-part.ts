import type { SpeechFormat } from '../../core/media/audio-formats.ts';
import { type Measured, noUnits, noUsage } from '../../core/usage.ts';
import type { StreamEnd } from '../../upstream/stream-answer.ts';

/** What is charged for speech of which only a part was delivered. */

/**
 * People read about fifteen bytes of text aloud in a second: fifteen letters, or five characters
 * of Chinese.
 */
const textBytesPerSecond = 15;

/** What vendors usually send; raw audio has 24,000 samples of two bytes. */
const audioBytesPerSecond: Readonly<Record<SpeechFormat, number>> = {
  mp3: 16_000,
  opus: 4_000,
  aac: 8_000,
  flac: 24_000,
  wav: 48_000,
  pcm: 48_000,
};

/** How many bytes the whole audio of a text probably has. */
export function typicalBytes(format: SpeechFormat, textBytes: number, speed: number): number {
  const seconds = textBytes / textBytesPerSecond / (speed > 0 ? speed : 1);
  return Math.ceil(seconds * audioBytesPerSecond[format]);
}

interface Delivery {
  readonly how: StreamEnd['how'];
  readonly deliveredBytes: number;
  /** The length that the provider announced; null when it did not. */
  readonly wholeBytes: number | null;
  readonly typicalBytes: number;
}

/** The part of a charge that is in proportion to the audio delivered. */
export function partOf(whole: Measured, delivery: Delivery): Measured {
  const { how, deliveredBytes, wholeBytes } = delivery;
  const broke = how === 'cut' ? 'The provider broke off' : 'The client left before the end';
  if (deliveredBytes === 0) {
    const note = `${broke}; no audio was delivered and nothing is charged.`;
    return { usage: noUsage, units: noUnits, isEstimate: false, isFree: true, note };
  }
  const allBytes = Math.max(deliveredBytes, wholeBytes ?? delivery.typicalBytes);
  const share = (count = 0) => Math.ceil((count * deliveredBytes) / allBytes);
  const about = wholeBytes === null ? 'about ' : '';
  const delivered = `${deliveredBytes} of ${about}${allBytes} bytes of audio were delivered`;
  const note = `${broke}; ${delivered}, and the charge is in proportion.`;
  return {
    usage: {
      ...noUsage,
      inputTokens: share(whole.usage.inputTokens),
      outputTokens: share(whole.usage.outputTokens),
    },
    units: { characters: share(whole.units.characters), bytes: share(whole.units.bytes) },
    isEstimate: whole.isEstimate || wholeBytes === null,
    note: whole.note === null ? note : `${whole.note} ${note}`,
  };
}
