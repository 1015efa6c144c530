import { describe, expect, test } from 'bun:test';
import { Scrape } from '../../tests/support/prometheus.ts';
import { circuitFamily } from './gauges.ts';
import {
  counter,
  durationBounds,
  gauge,
  Histogram,
  labels,
  Metrics,
  writeFamilies,
} from './prometheus.ts';

test('writeFamilies writes common labels first and no braces without labels', () => {
  const plain = gauge('a', 'First.', 1);
  const labeled = { ...counter('b', 'Second.', 2), samples: [{ labels: 'x="y"', value: 2 }] };
  expect(writeFamilies([plain, labeled], 'worker="3"')).toBe(
    '# HELP a First.\n# TYPE a gauge\na{worker="3"} 1\n' +
      '# HELP b Second.\n# TYPE b counter\nb{worker="3",x="y"} 2\n',
  );
  expect(writeFamilies([plain, labeled])).toBe(
    '# HELP a First.\n# TYPE a gauge\na 1\n# HELP b Second.\n# TYPE b counter\nb{x="y"} 2\n',
  );
});

test('circuitFamily writes 0 for closed, 1 for half-open, and 2 for open', () => {
  const states = (['closed', 'half_open', 'open'] as const).map((state) => ({
    provider: 'north',
    model: `acme/${state}`,
    state,
  }));
  expect(circuitFamily(states).samples).toEqual([
    { labels: 'provider="north",model="acme/closed"', value: 0 },
    { labels: 'provider="north",model="acme/half_open"', value: 1 },
    { labels: 'provider="north",model="acme/open"', value: 2 },
  ]);
});

function bucketsOf(histogram: Histogram): Record<string, number> {
  const buckets = histogram.samples('of="it"').filter(({ suffix }) => suffix === '_bucket');
  return Object.fromEntries(
    buckets.map(({ labels = '', value }) => [/le="(.+)"/.exec(labels)?.[1] ?? labels, value]),
  );
}

test('Histogram bounds are inclusive and buckets are cumulative', () => {
  const histogram = new Histogram([1, 4]);
  for (const value of [0, 1, 1.5, 4]) histogram.observe(value);
  expect(bucketsOf(histogram)).toEqual({ 1: 2, 4: 4, '+Inf': 4 });
});

test('Histogram counts values above all bounds', () => {
  const histogram = new Histogram(durationBounds);
  histogram.observe(86_400);
  expect(bucketsOf(histogram)).toMatchObject({ '327.68': 0, '+Inf': 1 });
  const [sum, count] = histogram.samples('of="it"').slice(-2);
  expect([sum, count]).toEqual([
    { suffix: '_sum', labels: 'of="it"', value: 86_400 },
    { suffix: '_count', labels: 'of="it"', value: 1 },
  ]);
});

describe('Metrics', () => {
  test('omits a source that throws', () => {
    const one = { name: 'one', help: 'a\nb\\c', type: 'gauge', samples: [{ value: 1 }] } as const;
    const metrics = new Metrics([
      () => [one],
      () => {
        throw new Error('broken');
      },
    ]);
    const text = metrics.write();
    expect(text).toContain('# HELP one a\\nb\\\\c\n');
    const seen = new Scrape(text);
    expect(seen.value('one')).toBe(1);
    expect(seen.value('tollgate_telemetry_failures_total')).toBe(1);
  });

  test('adds the common labels to every sample', () => {
    const labeled = { name: 'one', help: '', type: 'gauge', samples: [{ value: 1 }] } as const;
    const more = { ...labeled, name: 'two', samples: [{ labels: 'a="b"', value: 2 }] };
    const seen = new Scrape(new Metrics([() => [labeled, more]], { worker: '3' }).write());
    expect(seen.value('one', { worker: '3' })).toBe(1);
    expect(seen.value('two', { worker: '3', a: 'b' })).toBe(2);
    expect(seen.value('tollgate_telemetry_failures_total', { worker: '3' })).toBe(0);
  });

  test('reuses the page for frequent scrapes', () => {
    let written = 0;
    const slow = () => {
      written += 1;
      const until = performance.now() + 5;
      while (performance.now() < until);
      return [];
    };
    const metrics = new Metrics([slow]);
    const pages = Array.from({ length: 1_000 }, () => metrics.write());
    expect(new Set(pages).size).toBe(1);
    expect(written).toBeLessThan(20);
  });

  test('escapes label values', () => {
    const value = 'a"} 1\n# \\';
    const family = {
      name: 'one',
      help: '',
      type: 'gauge',
      samples: [{ labels: labels({ value }), value: 2 }],
    };
    const text = writeFamilies([family as never]);
    expect(text.trimEnd().split('\n').length).toBe(3);
    expect(new Scrape(text).value('one', { value })).toBe(2);
  });
});
