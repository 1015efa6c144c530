import type { SpeechSettings } from '../config/model-schema.ts';
import type { StreamedContent } from '../core/form.ts';
import type { SpeechFormat, TranscriptFormat, Voice } from '../core/media/audio.ts';
import type { Usage } from '../core/usage.ts';
import type { MediaTarget, ReadResult, SseMessage, UpstreamRequest } from './dialect.ts';
import { failureInside, malformed } from './failure.ts';

/** A string, or token IDs in OpenAI's cl100k_base vocabulary. */
export type EmbeddingInput = string | readonly number[];

/** The inputs and options of an embeddings request. */
export interface EmbeddingsOptions {
  readonly inputs: readonly EmbeddingInput[];
  /**
   * False if the client sent a single input that wasn't in a list. The input is forwarded the same
   * way.
   */
  readonly isList: boolean;
  readonly encoding: 'float' | 'base64';
  readonly dimensions: number | null;
  readonly user: string | null;
  /** Fields unknown to the gateway, for OpenAI-style upstreams that may know them. */
  readonly extraFields: Readonly<Record<string, unknown>>;
}

/** The vectors from one call, in the order of its inputs. */
export interface EmbeddingBatch {
  readonly vectors: readonly Vector[];
  /** The count that the upstream reported; null if it reported none. */
  readonly promptTokens: number | null;
}

/** The embeddings side of a dialect. */
export interface EmbeddingsDialect {
  /**
   * True if the dialect accepts token IDs. For other dialects, token IDs are decoded to text first.
   */
  readonly acceptsTokens: boolean;
  /** Returns the maximum number of inputs per call. More inputs are sent in several calls. */
  batchMax(options: EmbeddingsOptions): number;
  write(options: EmbeddingsOptions, target: MediaTarget): UpstreamRequest;
  readBatch(text: string): ReadResult<EmbeddingBatch>;
}

/** A list of numbers, or little-endian 32-bit floats in base64. */
export type Vector = string | readonly number[];

/** Encodes a vector as base64. All supported platforms are little-endian. */
export function toBase64(vector: Vector): string {
  if (typeof vector === 'string') return vector;
  return Buffer.from(Float32Array.from(vector).buffer).toString('base64');
}

export function toNumbers(vector: Vector): readonly number[] {
  if (typeof vector !== 'string') return vector;
  // Copy the bytes, because a Float32Array must start at an offset that is a multiple of 4.
  const bytes = new Uint8Array(Buffer.from(vector, 'base64'));
  return Array.from(new Float32Array(bytes.buffer));
}

const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** Returns `raw` if it is a vector with at least one number; otherwise undefined. */
export function readVector(raw: unknown): Vector | undefined {
  if (typeof raw === 'string') {
    const isAligned = raw.length % 4 === 0 && Buffer.byteLength(raw, 'base64') % 4 === 0;
    return isAligned && base64.test(raw) ? raw : undefined;
  }
  if (!Array.isArray(raw) || raw.length === 0) return undefined;
  return raw.every((value) => typeof value === 'number') ? raw : undefined;
}

/** Reads the vectors in `found`, a part of `answer`. They are in the order of the inputs. */
export function readVectors(
  answer: Record<string, unknown>,
  found: unknown,
  promptTokens: number,
): ReadResult<EmbeddingBatch> {
  if (!Array.isArray(found)) {
    const failure = failureInside(answer) ?? malformed('The provider returned no embeddings.');
    return { ok: false, failure };
  }
  const vectors = found.map(readVector).filter((vector) => vector !== undefined);
  if (vectors.length < found.length) {
    return { ok: false, failure: malformed('The provider returned an invalid embedding.') };
  }
  return { ok: true, value: { vectors, promptTokens: promptTokens > 0 ? promptTokens : null } };
}

export interface ImageFile {
  readonly mediaType: 'image/png' | 'image/jpeg' | 'image/webp';
  readonly content: StreamedContent;
}

export interface ImageParameters {
  readonly size: string | null;
  readonly quality: 'low' | 'medium' | 'high' | 'auto' | null;
  readonly background: string | null;
  readonly output_format: string | null;
  readonly user: string | null;
}

/** A request to generate or edit an image. */
export interface ImageOptions {
  readonly prompt: string;
  /** The images to edit, the main one first. Empty to generate an image from the prompt alone. */
  readonly images: readonly ImageFile[];
  /** Where to edit, in the format that the upstream expects; null to edit anywhere. */
  readonly mask: ImageFile | null;
  readonly parameters: ImageParameters;
  /** Fields unknown to the gateway, for OpenAI-style upstreams that may know them. */
  readonly extraFields: Readonly<Record<string, unknown>>;
}

/** One generated image: its bytes, or its URL. */
export interface GeneratedImage {
  readonly base64: string | null;
  readonly url: string | null;
  readonly revisedPrompt: string | null;
}

export interface GeneratedImages {
  readonly images: readonly GeneratedImage[];
  /** Undefined if the upstream reported none. */
  readonly usage: Usage | undefined;
  /** The upstream's fields that describe the images. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** The upstream's fields with detailed token counts. */
  readonly usageDetails: Readonly<Record<string, unknown>>;
}

/** The image side of a dialect. */
export interface ImagesDialect {
  /**
   * The format of a mask. `alpha`: a PNG that is transparent in the area to edit. `image`: an
   * additional image that is white in the area to edit and black elsewhere. The prompt explains it.
   */
  readonly mask: 'alpha' | 'image';
  /** The maximum number of images to edit in one request. */
  readonly imagesMax: number;
  write(options: ImageOptions, target: MediaTarget): UpstreamRequest;
  readGeneratedImages(text: string): ReadResult<GeneratedImages>;
}

const maskInstruction =
  'The last image is a mask of the first one: change only what is white in the mask, and leave ' +
  'everything that is black in it exactly as it is.';

/** Appends the mask to the images and explains it in the prompt, for upstreams without masks. */
export function withMaskAsImage({ prompt, images, mask }: ImageOptions): {
  readonly prompt: string;
  readonly images: readonly ImageFile[];
} {
  if (!mask) return { prompt, images };
  return { prompt: `${prompt}\n\n${maskInstruction}`, images: [...images, mask] };
}

/** The text to speak, the upstream's name for the voice, and other options. */
export interface SpeechOptions {
  readonly input: string;
  readonly voice: Voice;
  readonly format: SpeechFormat;
  /** Null if the client set none, or if the model ignores it. */
  readonly speed: number | null;
  readonly instructions: string | null;
  /** True to request the audio as events, which report the tokens used. */
  readonly asEvents: boolean;
  /** Fields unknown to the gateway that upstreams may know. */
  readonly extraFields: Readonly<Record<string, unknown>>;
}

/** The speech side of a dialect. The answer is bytes, or events that contain bytes. */
export interface SpeechDialect {
  readonly formats: readonly SpeechFormat[];
  /** The voices of models for which the catalog lists none; null if voices vary by model. */
  readonly voices: Pick<SpeechSettings, 'voices' | 'default_voice'> | null;
  write(options: SpeechOptions, target: MediaTarget): UpstreamRequest;
  /** Creates a reader for the answer's events; null if answers are never events. */
  readonly openEvents: (() => AudioEvents) | null;
}

/** Reads the audio in an answer's events. */
export interface AudioEvents {
  /** Reads one message. The value is the bytes in the message, or undefined if it has none. */
  push(message: SseMessage): ReadResult<Uint8Array | undefined>;
  /** True once the upstream reported that the answer is complete. */
  readonly finished: boolean;
  readonly usage: Usage | undefined;
}

/** An audio file. Its name and type match its content. */
export interface AudioFile {
  /** `audio.<extension>` */
  readonly filename: string;
  readonly contentType: string;
  readonly content: StreamedContent;
}

/** The options of a transcription request. */
export interface TranscriptionOptions {
  readonly format: TranscriptFormat;
  readonly language: string | null;
  readonly prompt: string | null;
  readonly temperature: number | null;
  /** The timestamps to include in `verbose_json`: `word`, `segment`, or both. */
  readonly granularities: readonly string[];
  /** Fields unknown to the gateway, for OpenAI-style upstreams that may know them. */
  readonly extraFields: Readonly<Record<string, readonly string[]>>;
}

export type Transcript =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'fields';
      readonly text: string;
      /** The duration of the audio; null if the upstream doesn't report it. */
      readonly seconds: number | null;
      /** All other fields of the answer. */
      readonly fields: Readonly<Record<string, unknown>>;
    };

/** The transcription side of a dialect. */
export interface TranscriptionDialect {
  readonly formats: readonly TranscriptFormat[];
  write(options: TranscriptionOptions, audio: AudioFile, target: MediaTarget): UpstreamRequest;
  read(text: string, format: TranscriptFormat): ReadResult<Transcript>;
}
