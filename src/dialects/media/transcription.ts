import type { DialectName } from '../../config/provider-schema.ts';
import type { TranscriptFormat } from '../../core/audio-formats.ts';
import type { Target, UpstreamFailure, UpstreamRequest } from '../dialect.ts';
import { openAiTranscription } from '../openai/transcription.ts';
import { siliconFlowTranscription } from '../siliconflow/transcription.ts';
import type { Recorded, Transcript, TranscriptionWish } from './transcription-wish.ts';

/** How a dialect writes recordings down. */
export interface TranscriptionDialect {
  readonly formats: readonly TranscriptFormat[];
  write(
    wish: TranscriptionWish,
    audio: Recorded,
    target: Pick<Target, 'upstreamModel' | 'quirks'>,
  ): UpstreamRequest;
  read(text: string, format: TranscriptFormat): Transcript | UpstreamFailure;
}

const dialects: Partial<Record<DialectName, TranscriptionDialect>> = {
  openai: openAiTranscription,
  siliconflow: siliconFlowTranscription,
};

/** Undefined when that dialect does not listen. */
export function transcriptionDialect(name: DialectName): TranscriptionDialect | undefined {
  return dialects[name];
}
