import { invalidRequest } from '../core/errors.ts';
import { transcriptFormats } from '../core/media/audio.ts';
import { id3Bytes, mp3FrameAt, readWavHeader } from '../core/media/audio-files.ts';
import { writeSubtitles } from '../core/media/subtitles.ts';
import {
  choiceField,
  type Form,
  formFields,
  formFiles,
  jsonReply,
  type Reply,
  readForm,
  textReply,
} from './http.ts';
import { excerpt } from './tokens.ts';

// POST /v1/audio/transcriptions: describes the uploaded file, without speech recognition.

interface Span {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

export async function answerTranscription(request: Request): Promise<Reply> {
  const form = await readForm(request);
  const format = choiceField(formFields(form), 'response_format', transcriptFormats) ?? 'json';
  const [file] = formFiles(form, 'file');
  if (file === undefined || file.size === 0) {
    throw invalidRequest("'file' is required and must be an audio file.", 'file');
  }
  const duration = audioSeconds(await file.bytes());
  const sentences = describeFile(file, duration);
  const text = sentences.join(' ');
  const usage = { type: 'duration', seconds: Math.ceil(duration) };
  switch (format) {
    case 'json':
      return jsonReply({ text, duration, usage });
    case 'text':
      return textReply(`${text}\n`);
    case 'srt':
      return textReply(subtitles(format, spread(sentences, duration)));
    case 'vtt':
      return textReply(subtitles(format, spread(sentences, duration)), 'text/vtt; charset=utf-8');
    case 'verbose_json':
      return jsonReply({
        task: 'transcribe',
        language: 'english',
        duration,
        text,
        ...timestamps(form, sentences, duration),
        usage,
      });
  }
}

function describeFile(file: File, duration: number): string[] {
  // A line break in a file name would break subtitle files.
  const name = excerpt(file.name.replaceAll(/\p{Cc}/gu, ' '), 100);
  return [
    'This is the Tollgate demo; no speech was recognized.',
    `The file ${JSON.stringify(name)} has ${file.size} bytes and lasts ${duration} s.`,
  ];
}

/** Distributes strings over the duration, each in proportion to its number of characters. */
function spread(texts: readonly string[], duration: number): Span[] {
  const charactersTotal = texts.reduce((sum, text) => sum + text.length, 0);
  let characters = 0;
  return texts.map((text) => {
    const start = roundToMs((duration * characters) / charactersTotal);
    characters += text.length;
    return { start, end: roundToMs((duration * characters) / charactersTotal), text };
  });
}

function roundToMs(seconds: number): number {
  return Math.round(seconds * 1_000) / 1_000;
}

/** As in OpenAI's API, segments are included unless only words are requested. */
function timestamps(form: Form, sentences: readonly string[], duration: number) {
  const granularities = [
    ...form.getAll('timestamp_granularities'),
    ...form.getAll('timestamp_granularities[]'),
  ];
  const includeWords = granularities.includes('word');
  const includeSegments = !includeWords || granularities.includes('segment');
  const texts = sentences.flatMap((sentence) => sentence.split(' '));
  const words = spread(texts, duration).map(({ text: word, ...times }) => ({ word, ...times }));
  return {
    ...(includeSegments ? { segments: spread(sentences, duration).map(segment) } : {}),
    ...(includeWords ? { words } : {}),
  };
}

function segment(span: Span, id: number) {
  return {
    id,
    seek: 0,
    ...span,
    tokens: [],
    temperature: 0,
    avg_logprob: 0,
    compression_ratio: 1,
    no_speech_prob: 0,
  };
}

function subtitles(format: 'srt' | 'vtt', spans: readonly Span[]): string {
  const cues = spans.map(({ start, end, text }) => ({
    startMs: Math.round(start * 1_000),
    endMs: Math.round(end * 1_000),
    settings: '',
    text,
  }));
  return writeSubtitles(format, cues);
}

// The length of an audio file is exact for WAV and MP3, and estimated from the size otherwise.

/** 128 kbit/s, typical for compressed audio. */
const guessedBytesPerSecond = 16_000;

/** The maximum number of bytes before the first MP3 frame. */
const resyncBytesMax = 64 * 1024;

function audioSeconds(file: Uint8Array): number {
  const seconds = wavSeconds(file) ?? mp3Seconds(file) ?? file.length / guessedBytesPerSecond;
  return Math.round(seconds * 1_000) / 1_000;
}

function wavSeconds(file: Uint8Array): number | undefined {
  const head = readWavHeader(file);
  return head && Math.min(head.dataBytes, file.length - head.dataStart) / head.bytesPerSecond;
}

function mp3Seconds(file: Uint8Array): number | undefined {
  const start = id3Bytes(file);
  for (let index = start; index < Math.min(file.length, start + resyncBytesMax); index += 1) {
    const { frames, seconds } = walkFrames(file, index);
    // Two consecutive frames are required: one header may be a coincidence.
    if (frames >= 2) return seconds;
  }
  return undefined;
}

function walkFrames(file: Uint8Array, start: number): { frames: number; seconds: number } {
  let [frames, seconds, at] = [0, 0, start];
  for (let frame = mp3FrameAt(file, at); frame; frame = mp3FrameAt(file, at)) {
    frames += 1;
    seconds += frame.samples / frame.sampleRate;
    at += frame.bytes;
  }
  return { frames, seconds };
}
