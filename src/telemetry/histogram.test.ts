import { expect, test } from 'bun:test';
import { durationBounds, Histogram } from './histogram.ts';

function bucketsOf(histogram: Histogram): Record<string, number> {
  const buckets = histogram.samples('of="it"').filter(({ suffix }) => suffix === '_bucket');
  return Object.fromEntries(
    buckets.map(({ labels = '', value }) => [/le="(.+)"/.exec(labels)?.[1] ?? labels, value]),
  );
}

test('a bound is the largest value of its bucket, and buckets count those before them', () => {
  const histogram = new Histogram([1, 4]);
  for (const value of [0, 1, 1.5, 4]) histogram.observe(value);
  expect(bucketsOf(histogram)).toEqual({ 1: 2, 4: 4, '+Inf': 4 });
});

test('what is larger than every bound is counted all the same', () => {
  const histogram = new Histogram(durationBounds);
  histogram.observe(86_400);
  expect(bucketsOf(histogram)).toMatchObject({ '327.68': 0, '+Inf': 1 });
  const [sum, count] = histogram.samples('of="it"').slice(-2);
  expect([sum, count]).toEqual([
    { suffix: '_sum', labels: 'of="it"', value: 86_400 },
    { suffix: '_count', labels: 'of="it"', value: 1 },
  ]);
});
