import type { SpeechTerms } from '../../config/model-schema.ts';
import type { DialectName } from '../../config/provider-schema.ts';
import type { SpeechFormat } from '../../core/media/audio-formats.ts';
import type { Usage } from '../../core/usage.ts';
import type { MediaTarget, SseMessage, UpstreamFailure, UpstreamRequest } from '../dialect.ts';
import { openAiSpeech } from '../openai/media/speech.ts';
import { siliconFlowSpeech } from '../siliconflow/speech.ts';

/** A text to be spoken, with a voice that the upstream knows. */
export interface SpeechWish {
  readonly input: string;
  readonly voice: string;
  readonly format: SpeechFormat;
  /** Null where the client gave none, or where the model does not follow it. */
  readonly speed: number | null;
  readonly instructions: string | null;
  /** The audio shall come in events, which tell the tokens used. */
  readonly asEvents: boolean;
  /** Fields that the gateway does not know; upstreams may. */
  readonly more: Readonly<Record<string, unknown>>;
}

/** How a dialect asks for speech; the answer is bytes, or events that carry them. */
export interface SpeechDialect {
  readonly formats: readonly SpeechFormat[];
  /** The voices that every model has, unless the catalogue names others. */
  readonly voices?: Pick<SpeechTerms, 'voices' | 'default_voice'>;
  write(wish: SpeechWish, target: MediaTarget): UpstreamRequest;
  /** Undefined where answers never come as events. */
  readonly openEvents?: () => AudioEvents;
}

/** Turns the events of an answer into audio bytes. */
export interface AudioEvents {
  /** The bytes of one message, undefined when it has none; or the failure that it carries. */
  push(message: SseMessage): Uint8Array | UpstreamFailure | undefined;
  /** The upstream said that the answer is complete. */
  readonly finished: boolean;
  readonly usage: Usage | undefined;
}

const dialects: Partial<Record<DialectName, SpeechDialect>> = {
  openai: openAiSpeech,
  siliconflow: siliconFlowSpeech,
};

/** Undefined when that dialect has no speech. */
export function speechDialect(name: DialectName): SpeechDialect | undefined {
  return dialects[name];
}
