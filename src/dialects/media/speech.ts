import type { DialectName } from '../../config/provider-schema.ts';
import type { SpeechFormat } from '../../core/audio-formats.ts';
import type { Usage } from '../../core/usage.ts';
import type { SseMessage, Target, UpstreamFailure, UpstreamRequest } from '../dialect.ts';
import { openAiSpeech } from '../openai/speech.ts';
import { siliconFlowSpeech } from '../siliconflow/speech.ts';
import type { SpeechWish } from './speech-wish.ts';

/** How a dialect asks for speech; the answer is bytes, or events that carry them. */
export interface SpeechDialect {
  readonly formats: readonly SpeechFormat[];
  write(wish: SpeechWish, target: Pick<Target, 'upstreamModel' | 'quirks'>): UpstreamRequest;
  /** Undefined where answers never come as events. */
  readonly openEvents?: () => AudioEvents;
}

/** An answer of events on its way into bytes. */
export interface AudioEvents {
  /** The bytes of one message, undefined when it has none; or the failure that it carries. */
  push(message: SseMessage): Uint8Array | UpstreamFailure | undefined;
  /** The upstream said that it is done. */
  readonly finished: boolean;
  readonly usage: Usage | undefined;
}

const dialects: Partial<Record<DialectName, SpeechDialect>> = {
  openai: openAiSpeech,
  siliconflow: siliconFlowSpeech,
};

/** Undefined when that dialect does not speak. */
export function speechDialect(name: DialectName): SpeechDialect | undefined {
  return dialects[name];
}
