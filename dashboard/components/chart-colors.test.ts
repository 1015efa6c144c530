import { describe, expect, test } from 'bun:test';
import { ColorAssignments } from './chart-colors.ts';

const models = Array.from({ length: 30 }, (_, index) => `brand/model-${index}`);
const entries = (colors: ReadonlyMap<string, string>) => [...colors].sort();

describe('the colors of a chart', () => {
  test('do not depend on the order of the names', () => {
    const names = models.slice(0, 10);
    const colors = new ColorAssignments().colorsOf(names);
    expect(entries(new ColorAssignments().colorsOf(names.toReversed()))).toEqual(entries(colors));
  });

  test('differ for all names of a chart, whatever was shown before', () => {
    const assignments = new ColorAssignments();
    for (let first = 0; first <= 20; first += 1) {
      const colors = assignments.colorsOf(models.slice(first, first + 10));
      expect(new Set(colors.values()).size).toBe(10);
    }
  });

  test('stay the same for a name while other names come and go', () => {
    const assignments = new ColorAssignments();
    const before = assignments.colorsOf(models.slice(0, 6));
    expect(entries(assignments.colorsOf(models.slice(0, 3)))).toEqual(entries(before).slice(0, 3));
    const more = assignments.colorsOf(models.slice(0, 10));
    for (const [name, color] of before) expect(more.get(name)).toBe(color);
    expect(entries(assignments.colorsOf(models.slice(0, 6)))).toEqual(entries(before));
  });
});
