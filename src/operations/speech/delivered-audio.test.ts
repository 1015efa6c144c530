import { describe, expect, test } from 'bun:test';
import { noUsage } from '../../core/usage.ts';
import { proratedUsage, typicalBytes } from './delivered-audio.ts';

const full = {
  usage: { ...noUsage, inputTokens: 10, outputTokens: 200 },
  units: { characters: 100, bytes: 300 },
  isEstimate: false,
  note: null,
};
const delivery = {
  outcome: 'interrupted',
  deliveredBytes: 0,
  announcedBytes: null,
  typicalBytes: 4_000,
} as const;

describe('proratedUsage', () => {
  test('is free if no audio was delivered', () => {
    for (const outcome of ['interrupted', 'client_disconnected'] as const) {
      const { isFree, usage, units, note } = proratedUsage(full, { ...delivery, outcome });
      expect([isFree, usage, units]).toEqual([true, noUsage, {}]);
      expect(note).toContain('nothing is charged');
    }
  });

  test('charges the delivered part of the announced length, rounded up', () => {
    const part = proratedUsage(full, { ...delivery, deliveredBytes: 1_001, announcedBytes: 2_000 });
    expect(part.units).toEqual({ characters: 51, bytes: 151 });
    expect([part.usage.inputTokens, part.usage.outputTokens]).toEqual([6, 101]);
    expect(part.isEstimate).toBe(false);
  });

  test('charges the delivered part of the typical length if none was announced', () => {
    const part = proratedUsage(full, { ...delivery, deliveredBytes: 1_000 });
    expect([part.units.characters, part.isEstimate]).toEqual([25, true]);
  });

  test('never exceeds the full charge', () => {
    const part = proratedUsage(full, { ...delivery, deliveredBytes: 9_000 });
    expect([part.units, part.usage]).toEqual([full.units, full.usage]);
  });
});

test('typicalBytes estimates the size of audio from the time to read the text aloud', () => {
  // 150 bytes of text in ten seconds.
  expect(typicalBytes('pcm', 150, 1)).toBe(480_000);
  expect(typicalBytes('mp3', 150, 2)).toBe(80_000);
});
