import type { SpeechFormat } from '../../core/media/audio.ts';
import { type Measured, noUnits, noUsage } from '../../core/usage.ts';
import type { OpenBytes } from '../../upstream/attempt.ts';
import type { AnswerRecorder } from '../../upstream/recorder.ts';
import type { StreamOutcome } from '../../upstream/stream-answer.ts';

/** People read about 15 bytes of text aloud per second: 15 Latin or 5 Chinese characters. */
const textBytesPerSecond = 15;

/** Typical data rates, in bytes per second. Raw audio has 24,000 2-byte samples per second. */
const audioBytesPerSecond: Readonly<Record<SpeechFormat, number>> = {
  mp3: 16_000,
  opus: 4_000,
  aac: 8_000,
  flac: 24_000,
  wav: 48_000,
  pcm: 48_000,
};

/** Estimates the size of the complete audio of a text. */
export function typicalBytes(format: SpeechFormat, textBytes: number, speed: number): number {
  const seconds = textBytes / textBytesPerSecond / (speed > 0 ? speed : 1);
  return Math.ceil(seconds * audioBytesPerSecond[format]);
}

interface Delivery {
  readonly outcome: StreamOutcome['kind'];
  readonly deliveredBytes: number;
  /** The size that the provider announced, or null. */
  readonly announcedBytes: number | null;
  readonly typicalBytes: number;
}

/** Returns the usage to charge for incomplete audio, in proportion to the part delivered. */
export function proratedUsage(full: Measured, delivery: Delivery): Measured {
  const { outcome, deliveredBytes, announcedBytes } = delivery;
  const reason =
    outcome === 'interrupted'
      ? 'The provider ended the response early'
      : 'The client disconnected early';
  if (deliveredBytes === 0) {
    const note = `${reason}; no audio was delivered and nothing is charged.`;
    return { usage: noUsage, units: noUnits, isEstimate: false, isFree: true, note };
  }
  const totalBytes = Math.max(deliveredBytes, announcedBytes ?? delivery.typicalBytes);
  const prorate = (count = 0) => Math.ceil((count * deliveredBytes) / totalBytes);
  const qualifier = announcedBytes === null ? 'about ' : '';
  const delivered = `${deliveredBytes} of ${qualifier}${totalBytes} bytes of audio were delivered`;
  const note = `${reason}; ${delivered}, and the charge is proportional.`;
  return {
    usage: {
      ...noUsage,
      inputTokens: prorate(full.usage.inputTokens),
      outputTokens: prorate(full.usage.outputTokens),
    },
    units: { characters: prorate(full.units.characters), bytes: prorate(full.units.bytes) },
    isEstimate: full.isEstimate || announcedBytes === null,
    note: full.note === null ? note : `${full.note} ${note}`,
  };
}

/** Records audio as lines of base64 while it is sent. */
export function recordAudio(audio: OpenBytes, recorder: AnswerRecorder): OpenBytes {
  const record = (chunk: Uint8Array) => recorder.add(`${Buffer.from(chunk).toString('base64')}\n`);
  record(audio.first);
  return {
    ...audio,
    async next() {
      const chunk = await audio.next();
      if (chunk) record(chunk);
      return chunk;
    },
  };
}

export function decodeRecordedAudio(text: string): Uint8Array<ArrayBuffer> {
  return Buffer.concat(text.split('\n').map((line) => Buffer.from(line, 'base64')));
}
