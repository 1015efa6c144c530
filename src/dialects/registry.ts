import type { DialectName } from '../config/provider-schema.ts';
import { anthropicUpstream } from './anthropic/upstream/reader.ts';
import { bedrockUpstream } from './bedrock/upstream/upstream.ts';
import { cohereEmbeddings } from './cohere/embeddings.ts';
import type { UpstreamDialect } from './dialect.ts';
import { geminiEmbeddings, geminiImages } from './gemini/media.ts';
import { geminiUpstream } from './gemini/upstream/upstream.ts';
import type {
  EmbeddingsDialect,
  ImagesDialect,
  SpeechDialect,
  TranscriptionDialect,
} from './media.ts';
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

/**
 * Everything the gateway knows about one dialect. Null means that the dialect has no such endpoint.
 */
export interface Dialect {
  readonly chat: UpstreamDialect | null;
  readonly embeddings: EmbeddingsDialect | null;
  readonly images: ImagesDialect | null;
  readonly speech: SpeechDialect | null;
  readonly transcription: TranscriptionDialect | null;
  /** Returns the headers that carry a provider's key. */
  authHeaders(key: string): Record<string, string>;
  /**
   * The path of the model list. A request for the list is free and requires a valid key. Null if
   * the list is at a different host or API version than the models.
   */
  readonly modelListPath: string | null;
}

const bearer: Dialect['authHeaders'] = (key) => ({ authorization: `Bearer ${key}` });

/** The only list of dialects. A dialect name without an entry is a compile-time error. */
export const dialects: Readonly<Record<DialectName, Dialect>> = {
  openai: {
    chat: openAiUpstream,
    embeddings: openAiEmbeddings,
    images: openAiImages,
    speech: openAiSpeech,
    transcription: openAiTranscription,
    authHeaders: bearer,
    modelListPath: '/models',
  },
  'openai-responses': {
    chat: responsesUpstream,
    embeddings: null,
    images: null,
    speech: null,
    transcription: null,
    authHeaders: bearer,
    modelListPath: '/models',
  },
  anthropic: {
    chat: anthropicUpstream,
    embeddings: null,
    images: null,
    speech: null,
    transcription: null,
    authHeaders: (key) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
    modelListPath: '/models',
  },
  gemini: {
    chat: geminiUpstream,
    embeddings: geminiEmbeddings,
    images: geminiImages,
    speech: null,
    transcription: null,
    authHeaders: (key) => ({ 'x-goog-api-key': key }),
    modelListPath: '/models',
  },
  bedrock: {
    chat: bedrockUpstream,
    embeddings: null,
    images: null,
    speech: null,
    transcription: null,
    authHeaders: bearer,
    modelListPath: null,
  },
  cohere: {
    chat: null,
    embeddings: cohereEmbeddings,
    images: null,
    speech: null,
    transcription: null,
    authHeaders: bearer,
    modelListPath: null,
  },
  siliconflow: {
    chat: openAiUpstream,
    embeddings: openAiEmbeddings,
    images: siliconFlowImages,
    speech: siliconFlowSpeech,
    transcription: siliconFlowTranscription,
    authHeaders: bearer,
    modelListPath: '/models',
  },
};

/** Returns true if `name` is a dialect with chat. Recordings may name any dialect. */
export function canChat(name: string): name is DialectName {
  return Object.hasOwn(dialects, name) && dialects[name as DialectName].chat !== null;
}
