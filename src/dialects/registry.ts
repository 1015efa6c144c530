import type { SpeechSettings } from '../config/model-schema.ts';
import type { DialectName } from '../config/provider-schema.ts';
import type { LongBytes } from '../core/form.ts';
import type { SpeechFormat, TranscriptFormat } from '../core/media/audio.ts';
import type { Usage } from '../core/usage.ts';
import { anthropicUpstream } from './anthropic/upstream/reader.ts';
import { bedrockUpstream } from './bedrock/upstream/upstream.ts';
import { cohereEmbeddings } from './cohere/embeddings.ts';
import type {
  MediaTarget,
  ReadResult,
  SseMessage,
  UpstreamDialect,
  UpstreamRequest,
} from './dialect.ts';
import { geminiEmbeddings, geminiImages } from './gemini/media.ts';
import { geminiUpstream } from './gemini/upstream/upstream.ts';
import type { GeneratedImages, ImageOptions, Vector } from './media.ts';
import { openAiUpstream } from './openai-chat/upstream/reader.ts';
import { openAiEmbeddings } from './openai-media/embeddings.ts';
import { openAiImages } from './openai-media/images.ts';
import { openAiSpeech } from './openai-media/speech.ts';
import { openAiTranscription } from './openai-media/transcription.ts';
import { responsesUpstream } from './responses/upstream/reader.ts';
import {
  siliconFlowImages,
  siliconFlowSpeech,
  siliconFlowTranscription,
} from './siliconflow/media.ts';

/** The upstream dialects that can chat. */
const upstreamDialects: Partial<Record<DialectName, UpstreamDialect>> = {
  openai: openAiUpstream,
  siliconflow: openAiUpstream,
  anthropic: anthropicUpstream,
  gemini: geminiUpstream,
  bedrock: bedrockUpstream,
  'openai-responses': responsesUpstream,
};

export function upstreamDialect(name: DialectName): UpstreamDialect | undefined {
  return upstreamDialects[name];
}

/** Whether `name` is a dialect that can chat. */
export function canChat(name: string): name is DialectName {
  return Object.hasOwn(upstreamDialects, name);
}

/** A text, or the numbers of its tokens as OpenAI's cl100k_base cuts them. */
export type EmbeddingInput = string | readonly number[];

/** What a client wants embedded, and how. */
export interface EmbeddingsOptions {
  readonly inputs: readonly EmbeddingInput[];
  /** A single input may come alone or as a list of one; it goes on as it came. */
  readonly isList: boolean;
  readonly encoding: 'float' | 'base64';
  readonly dimensions: number | null;
  readonly user: string | null;
  /** Fields that the gateway does not know; OpenAI-style upstreams may. */
  readonly more: Readonly<Record<string, unknown>>;
}

/** One call's worth of vectors, in the order of its inputs. */
export interface EmbeddingBatch {
  readonly vectors: readonly Vector[];
  /** As the upstream counted them; null when it did not. */
  readonly promptTokens: number | null;
}

/** How a dialect embeds: our words into its requests, its answers into vectors. */
export interface EmbeddingsDialect {
  /** Whether it takes token numbers as inputs; for others they are turned into text first. */
  readonly takesTokens: boolean;
  /** The most inputs of one call; more are sent in several calls. */
  batchMax(options: EmbeddingsOptions): number;
  write(options: EmbeddingsOptions, target: MediaTarget): UpstreamRequest;
  readBatch(text: string): ReadResult<EmbeddingBatch>;
}

const embeddingsDialects: Partial<Record<DialectName, EmbeddingsDialect>> = {
  openai: openAiEmbeddings,
  siliconflow: openAiEmbeddings,
  cohere: cohereEmbeddings,
  gemini: geminiEmbeddings,
};

/** Undefined when that dialect has no embeddings. */
export function embeddingsDialect(name: DialectName): EmbeddingsDialect | undefined {
  return embeddingsDialects[name];
}

/** How a dialect makes images: our words into its requests, its answers into images. */
export interface ImagesDialect {
  /**
   * How the upstream is told where to edit. `alpha`: by a PNG that is transparent there. `image`:
   * by one more image, white there and black elsewhere, and in words.
   */
  readonly mask: 'alpha' | 'image';
  /** The most images that it edits in one request. */
  readonly imagesMax: number;
  write(options: ImageOptions, target: MediaTarget): UpstreamRequest;
  readGeneratedImages(text: string): ReadResult<GeneratedImages>;
}

const imagesDialects: Partial<Record<DialectName, ImagesDialect>> = {
  openai: openAiImages,
  gemini: geminiImages,
  siliconflow: siliconFlowImages,
};

/** Undefined when that dialect makes no images. */
export function imagesDialect(name: DialectName): ImagesDialect | undefined {
  return imagesDialects[name];
}

/** A text to be spoken, with a voice that the upstream knows. */
export interface SpeechOptions {
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
  readonly voices?: Pick<SpeechSettings, 'voices' | 'default_voice'>;
  write(options: SpeechOptions, target: MediaTarget): UpstreamRequest;
  /** Undefined where answers never come as events. */
  readonly openEvents?: () => AudioEvents;
}

/** Turns the events of an answer into audio bytes. */
export interface AudioEvents {
  /** The bytes of one message, undefined when it has none; or the failure that it carries. */
  push(message: SseMessage): ReadResult<Uint8Array | undefined>;
  /** The upstream said that the answer is complete. */
  readonly finished: boolean;
  readonly usage: Usage | undefined;
}

const speechDialects: Partial<Record<DialectName, SpeechDialect>> = {
  openai: openAiSpeech,
  siliconflow: siliconFlowSpeech,
};

/** Undefined when that dialect has no speech. */
export function speechDialect(name: DialectName): SpeechDialect | undefined {
  return speechDialects[name];
}

/** A recording, under the name and type that its bytes really have. */
export interface AudioFile {
  /** `audio.<extension>` */
  readonly filename: string;
  readonly contentType: string;
  readonly content: LongBytes;
}

/** How a client wants a recording written down. */
export interface TranscriptionOptions {
  readonly format: TranscriptFormat;
  readonly language: string | null;
  readonly prompt: string | null;
  readonly temperature: number | null;
  /** Of `word` and `segment`: which times `verbose_json` carries. */
  readonly granularities: readonly string[];
  /** Fields that the gateway does not know; OpenAI-style upstreams may. */
  readonly more: Readonly<Record<string, readonly string[]>>;
}

/** What an upstream heard. */
export type Transcript =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'fields';
      readonly text: string;
      /** How long the recording is, as far as the upstream says. */
      readonly seconds: number | null;
      /** Everything else that the upstream says. */
      readonly fields: Readonly<Record<string, unknown>>;
    };

/** How a dialect writes recordings down. */
export interface TranscriptionDialect {
  readonly formats: readonly TranscriptFormat[];
  write(options: TranscriptionOptions, audio: AudioFile, target: MediaTarget): UpstreamRequest;
  read(text: string, format: TranscriptFormat): ReadResult<Transcript>;
}

const transcriptionDialects: Partial<Record<DialectName, TranscriptionDialect>> = {
  openai: openAiTranscription,
  siliconflow: siliconFlowTranscription,
};

/** Undefined when that dialect has no transcription. */
export function transcriptionDialect(name: DialectName): TranscriptionDialect | undefined {
  return transcriptionDialects[name];
}
