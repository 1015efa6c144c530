import { describe, expect, test } from 'bun:test';
import { mp3File, opusFile, taggedMp3, wavFile } from '../../../tests/support/audio-files.ts';
import { bodyFromBytes } from '../../dialects/streamed-body.ts';
import { estimatedSeconds, plausibleSeconds, readDurationSeconds } from './audio-file.ts';

describe('estimatedSeconds', () => {
  test('returns the stated length, up to the maximum for the size', () => {
    expect(estimatedSeconds(1_000_000, 62.5)).toBe(62.5);
    // At least 100 bytes per second.
    expect(estimatedSeconds(1_000_000, 1e12)).toBe(10_000);
    expect(estimatedSeconds(44, 60)).toBe(0.44);
  });

  test('returns an upper bound if no length is stated', () => {
    expect(estimatedSeconds(1_000_000, null)).toBe(2_000);
  });
});

describe('plausibleSeconds', () => {
  test('accepts up to 1 hour for small files and more for large ones', () => {
    expect(plausibleSeconds(3_600, 44, null)).toBe(3_600);
    expect(plausibleSeconds(10_000, 1_000_000, null)).toBe(10_000);
    expect(plausibleSeconds(10_001, 1_000_000, null)).toBe(2_000);
  });

  test('accepts 5 times the stated duration, a minute, and what the size allows', () => {
    expect(plausibleSeconds(60, 32_044, 1)).toBe(60);
    expect(plausibleSeconds(64, 32_000, 1)).toBe(64);
    expect(plausibleSeconds(65, 32_000, 1)).toBe(1);
    expect(plausibleSeconds(3_600, 32_044, 1)).toBe(1);
    expect(plausibleSeconds(300, 30_000, 60)).toBe(300);
    expect(plausibleSeconds(301, 30_000, 60)).toBe(60);
  });

  test('accepts at least a fifth of the stated duration', () => {
    expect(plausibleSeconds(12, 1_000_000, 60)).toBe(12);
    expect(plausibleSeconds(11.9, 1_000_000, 60)).toBe(60);
    expect(plausibleSeconds(0, 1_000_000, 60)).toBe(60);
    // 44 bytes are at most 0.44 seconds, whatever the file states.
    expect(plausibleSeconds(0.1, 44, 60)).toBe(0.1);
  });

  test('returns null for 0 seconds of a file that states no duration', () => {
    expect(plausibleSeconds(0, 1_000_000, null)).toBeNull();
    expect(plausibleSeconds(0.1, 1_000_000, null)).toBe(0.1);
  });
});

/** A time limit that a busy machine doesn't exceed, for tests of the file itself. */
const generousMs = 60_000;

describe('readDurationSeconds', () => {
  test.each([
    ['wav', wavFile(10), 'audio/wav', 2.4],
    ['mp3', mp3File(10), 'audio/mpeg', 2.4],
    ['mp3 with tags', taggedMp3(10), 'audio/mpeg', 2.4],
    // 50 packets of 20 ms, minus the pre-skip.
    ['ogg', opusFile(50), 'audio/ogg', 0.9935],
  ])('reads the duration of %s', async (_, bytes, type, seconds) => {
    const found = await readDurationSeconds(bodyFromBytes(bytes), type, generousMs);
    expect(Math.abs((found ?? Number.NaN) - seconds)).toBeLessThan(0.03);
  });

  test.each([
    [
      'a file cut off after its first bytes',
      Buffer.from('\0\0\0\x18ftypM4A  and so on'),
      'audio/mp4',
    ],
    ['junk', Buffer.alloc(100_000, 7), 'audio/webm'],
  ])('returns null for %s', async (_, bytes, type) => {
    expect(await readDurationSeconds(bodyFromBytes(bytes), type, generousMs)).toBeNull();
  });

  test('returns null if parsing takes too long', async () => {
    expect(await readDurationSeconds(bodyFromBytes(wavFile(10)), 'audio/wav', -1)).toBeNull();
  });

  test('parses files one at a time, so that each has its time limit', async () => {
    const reported: string[] = [];
    const files = ['a', 'b', 'c'].map((name) => {
      const file = bodyFromBytes(wavFile(10));
      const chunks = async function* () {
        reported.push(name);
        yield* file.chunks();
      };
      return { ...file, chunks };
    });
    const looks = files.map((file) => readDurationSeconds(file, 'audio/wav', generousMs));
    expect(await Promise.all(looks)).toEqual([2.4, 2.4, 2.4]);
    expect(reported.join('')).toMatch(/^a+b+c+$/);
  });

  test('yields to the event loop while it parses a file of false frame starts', async () => {
    let turns = 0;
    let isReading = true;
    const count = () => {
      turns += 1;
      if (isReading) setImmediate(count);
    };
    setImmediate(count);
    // About 1 s of work, without a time limit.
    const junk = Buffer.alloc(100_000, 0xff);
    expect(await readDurationSeconds(bodyFromBytes(junk), 'audio/mpeg', generousMs)).toBeNull();
    isReading = false;
    expect(turns).toBeGreaterThan(10);
  });

  const uint32 = (value: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(value);
    return bytes;
  };
  /** Version 2.3, whose size has 7 bits per byte. */
  const tag = (frames: Buffer) => {
    const size = [21, 14, 7, 0].map((bits) => (frames.length >> bits) & 0x7f);
    return Buffer.concat([Buffer.from('ID3\x03\0\0'), Buffer.from(size), frames]);
  };
  const many = (frame: string | Buffer, count: number) =>
    Buffer.alloc(count * frame.length).fill(frame);
  const comments = Buffer.concat([Buffer.alloc(4), Buffer.from([0x80, 0x84, 0x1e, 0])]);

  test('finds the length after a tag with a large image', async () => {
    const image = Buffer.concat([Buffer.from('APIC'), uint32(3_000_000), Buffer.alloc(3_000_002)]);
    const file = Buffer.concat([tag(image), mp3File(10)]);
    const found = await readDurationSeconds(bodyFromBytes(file), 'audio/mpeg', generousMs);
    expect(Math.abs((found ?? Number.NaN) - 2.4)).toBeLessThan(0.03);
  });

  test.each([
    [
      'two million comments',
      'audio/flac',
      [
        Buffer.from('fLaC\0\0\0\x22'),
        Buffer.alloc(34),
        Buffer.from([0x84, 0xd5, 0x9f, 0x88]),
        comments,
        many('\x03\0\0\0a=b', 2_000_000),
      ],
    ],
    [
      'an embedded tag with a million frames',
      'audio/wav',
      [
        Buffer.from('RIFF\0\0\0\x01WAVEid3 '),
        Buffer.from([0x8a, 0x9f, 0xd5, 0]),
        tag(many('TXXX\0\0\0\x04\0\0\0a\0b', 1_000_000)),
      ],
    ],
  ])('does not parse %s', async (_, type, pieces) => {
    const file = Buffer.concat(pieces);
    let bytesRead = 0;
    const content = {
      bytes: file.length,
      async *chunks() {
        for (let index = 0; index < file.length; index += 65_536) {
          bytesRead += 65_536;
          yield file.subarray(index, index + 65_536);
        }
      },
    };
    expect(await readDurationSeconds(content, type, generousMs)).toBeNull();
    // A piece is too small to be processed for seconds without a pause.
    expect(bytesRead).toBeLessThan(500_000);
  });

  test('reads a stored file and closes its source', async () => {
    const bytes = wavFile(10);
    let isOpen = false;
    const content = {
      bytes: bytes.length,
      async *chunks() {
        isOpen = true;
        try {
          for (let index = 0; index < bytes.length; index += 1000)
            yield bytes.subarray(index, index + 1000);
        } finally {
          isOpen = false;
        }
      },
    };
    expect(await readDurationSeconds(content, 'audio/wav', generousMs)).toBeCloseTo(2.4, 3);
    expect(isOpen).toBe(false);
  });
});
