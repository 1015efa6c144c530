import { invalidRequest } from '../core/errors.ts';
import { isObject, type JsonObject } from '../core/json.ts';
import { audioTypes } from '../core/media/audio.ts';
import { writeWavHeader } from '../core/media/audio-files.ts';
import { countCharacters } from '../core/text.ts';
import {
  type Bytes,
  choiceField,
  delayField,
  numberField,
  pause,
  type Reply,
  type ReplyStream,
  readJsonBody,
  requiredTextField,
  streamReply,
} from './http.ts';
import { mp3Notes } from './melody-mp3.data.ts';

// POST /v1/audio/speech: plays the text as a melody.

/** OpenAI's own limit. */
const inputCharactersMax = 4_096;

/** About 1 s of audio per chunk. */
const notesPerChunk = 4;

/** Functions that encode one note, by format. */
const noteEncoders = { mp3: mp3Note, wav: pcmNote, pcm: pcmNote } as const;
const otherFormats = ['opus', 'aac', 'flac'] as const;

export async function answerSpeech(request: Request): Promise<Reply> {
  const body = await readJsonBody(request);
  const input = requiredTextField(body, 'input');
  if (countCharacters(input) > inputCharactersMax) {
    throw invalidRequest(`'input' is longer than ${inputCharactersMax} characters.`, 'input');
  }
  const format = readFormat(body);
  const speed = numberField(body, 'speed', 0.25, 4) ?? 1;
  const melody = composeMelody(input, readVoice(body), speed);
  const header = format === 'wav' ? wavHeader(melody.length) : undefined;
  const notes = play(melody, noteEncoders[format], delayField(body), header);
  return streamReply(audioTypes[format], notes);
}

function readFormat(body: JsonObject): keyof typeof noteEncoders {
  choiceField(body, 'stream_format', ['audio']);
  const format =
    choiceField(body, 'response_format', ['mp3', 'wav', 'pcm', ...otherFormats]) ?? 'mp3';
  if (format === 'mp3' || format === 'wav' || format === 'pcm') return format;
  throw invalidRequest(
    `The demo supports only mp3, wav, and pcm; '${format}' needs a real speech model.`,
    'response_format',
  );
}

/**
 * Reads the voice. Any voice is accepted, and each has its own melody. Custom voices have the form
 * `{id}`.
 */
function readVoice(body: JsonObject): string {
  const voice = isObject(body.voice) ? body.voice.id : (body.voice ?? 'demo');
  if (typeof voice === 'string') return voice;
  throw invalidRequest("'voice' must be the name of a voice.", 'voice');
}

async function* play(
  melody: readonly number[],
  encodeNote: (note: number) => Bytes,
  delayMs: number,
  header: Bytes | undefined,
): ReplyStream {
  if (header !== undefined) yield header;
  for (let start = 0; start < melody.length; start += notesPerChunk) {
    await pause(delayMs);
    yield Buffer.concat(melody.slice(start, start + notesPerChunk).map(encodeNote));
  }
}

// The demo's voice is a melody with a short bell note for every few characters of the text. WAV and
// PCM are computed. MP3 is concatenated from pre-encoded notes, each of 10 independent frames (no
// bit reservoir, silence at both ends), so they can be played in any order.

const sampleRateHz = 24_000;
const bytesPerSample = 2;

/** 240 ms, exactly 10 MP3 frames at this sample rate. */
const noteSamples = 5_760;
/** The last 40 ms are silent, because the encoder adds a delay of almost 2 frames. */
const soundingSamples = 4_800;

/** C, D, E, G, A, which sound good together in any order. */
const pitchesHz = [523.25, 587.33, 659.25, 783.99, 880];

/** The longest melody lasts 20 s. */
const notesMax = 83;
const notesMin = 2;
/** At this rate a melody lasts about as long as reading the text aloud. */
const charactersPerNote = 5;

/** Returns notes as indexes into the scale. The same text and voice give the same melody. */
function composeMelody(text: string, voice: string, speed: number): number[] {
  const characters = Array.from(text);
  const perNote = Math.max(1, Math.round(charactersPerNote * speed));
  const notesNeeded = Math.ceil(characters.length / perNote);
  const count = Math.min(notesMax, Math.max(notesMin, notesNeeded));
  return Array.from({ length: count }, (_, index) => {
    const part = characters.slice(index * perNote, (index + 1) * perNote).join('');
    return Bun.hash.xxHash32(`${voice} ${part}`) % pitchesHz.length;
  });
}

/** Caches the 5 notes, so that each is computed only once. */
const pcmNotes = new Map<number, Bytes>();

/** Returns a note as 16-bit little-endian mono samples. */
export function pcmNote(note: number): Bytes {
  const known = pcmNotes.get(note) ?? synthesize(note);
  pcmNotes.set(note, known);
  return known;
}

function synthesize(note: number): Bytes {
  const samples = new DataView(new ArrayBuffer(noteSamples * bytesPerSample));
  const radiansPerSample = (2 * Math.PI * (pitchesHz[note] ?? 0)) / sampleRateHz;
  for (let index = 0; index < soundingSamples; index += 1) {
    const attack = Math.min(1, index / 240);
    const release = Math.min(1, (soundingSamples - index) / 1_200);
    const loudness = 0.4 * attack * release * Math.exp(-index / 3_000);
    const wave = Math.sin(radiansPerSample * index) + 0.3 * Math.sin(2 * radiansPerSample * index);
    samples.setInt16(index * bytesPerSample, Math.round(loudness * wave * 32_767), true);
  }
  return new Uint8Array(samples.buffer);
}

/** Returns a note as 10 MPEG-2 Layer III frames: 24 kHz, mono, 32 kbit/s. */
export function mp3Note(note: number): Bytes {
  return new Uint8Array(Buffer.from((mp3Notes[note] ?? []).join(''), 'base64'));
}

/** Returns the 44 bytes before the samples of a WAV file. */
export function wavHeader(notes: number): Bytes {
  const format = Buffer.alloc(16);
  // PCM, 1 channel.
  format.writeUInt16LE(1, 0);
  format.writeUInt16LE(1, 2);
  format.writeUInt32LE(sampleRateHz, 4);
  format.writeUInt32LE(sampleRateHz * bytesPerSample, 8);
  format.writeUInt16LE(bytesPerSample, 12);
  format.writeUInt16LE(bytesPerSample * 8, 14);
  return writeWavHeader(format, notes * noteSamples * bytesPerSample);
}
