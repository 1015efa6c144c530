/**
 * The demo's voice: a melody with one short bell note for every few characters of the text.
 * WAV and PCM are computed; MP3 is put together from notes that were encoded once, each as ten
 * frames of its own (no bit reservoir, silence at both ends), so they can follow in any order.
 */
import { writeWavHead } from '../core/media/wav.ts';
import { mp3Notes } from './melody-mp3.data.ts';
import type { Bytes } from './reply.ts';

const sampleRateHz = 24_000;
const bytesPerSample = 2;

/** 240 ms, exactly ten MP3 frames at this sample rate. */
const noteSamples = 5_760;
/** The last 40 ms are silent. The encoder delays by almost two frames, so notes need the room. */
const soundingSamples = 4_800;

/** C, D, E, G, A: these notes sound well together in any order. */
const pitchesHz = [523.25, 587.33, 659.25, 783.99, 880];

/** The longest melody lasts twenty seconds. */
const notesMax = 83;
const notesMin = 2;
/** At this rate a melody lasts about as long as reading the text aloud. */
const charactersPerNote = 5;

/** Which notes to play: indexes into the scale. The same text and voice give the same melody. */
export function composeMelody(text: string, voice: string, speed: number): number[] {
  const characters = Array.from(text);
  const perNote = Math.max(1, Math.round(charactersPerNote * speed));
  const wanted = Math.ceil(characters.length / perNote);
  const count = Math.min(notesMax, Math.max(notesMin, wanted));
  return Array.from({ length: count }, (_, index) => {
    const piece = characters.slice(index * perNote, (index + 1) * perNote).join('');
    return Bun.hash.xxHash32(`${voice} ${piece}`) % pitchesHz.length;
  });
}

/** A melody is made of the same five notes; computing each only once keeps the demo fast. */
const pcmNotes = new Map<number, Bytes>();

/** A note as 16-bit little-endian mono samples. */
export function pcmNote(note: number): Bytes {
  const known = pcmNotes.get(note) ?? synthesise(note);
  pcmNotes.set(note, known);
  return known;
}

function synthesise(note: number): Bytes {
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

/** A note as ten MPEG-2 Layer III frames: 24 kHz, mono, 32 kbit/s. */
export function mp3Note(note: number): Bytes {
  return new Uint8Array(Buffer.from((mp3Notes[note] ?? []).join(''), 'base64'));
}

/** The 44 bytes in front of the samples of a WAV file. */
export function wavHeader(notes: number): Bytes {
  const format = Buffer.alloc(16);
  // Plain samples, one channel.
  format.writeUInt16LE(1, 0);
  format.writeUInt16LE(1, 2);
  format.writeUInt32LE(sampleRateHz, 4);
  format.writeUInt32LE(sampleRateHz * bytesPerSample, 8);
  format.writeUInt16LE(bytesPerSample, 12);
  format.writeUInt16LE(bytesPerSample * 8, 14);
  return writeWavHead(format, notes * noteSamples * bytesPerSample);
}
