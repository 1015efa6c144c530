import { expect, test } from 'bun:test';
import { counter, gauge, writeFamilies } from './exposition.ts';
import { circuitFamily } from './gauges.ts';

test('labels stand in braces, the common ones first, and no braces without any', () => {
  const plain = gauge('a', 'First.', 1);
  const labelled = { ...counter('b', 'Second.', 2), samples: [{ labels: 'x="y"', value: 2 }] };
  expect(writeFamilies([plain, labelled], 'worker="3"')).toBe(
    '# HELP a First.\n# TYPE a gauge\na{worker="3"} 1\n' +
      '# HELP b Second.\n# TYPE b counter\nb{worker="3",x="y"} 2\n',
  );
  expect(writeFamilies([plain, labelled])).toBe(
    '# HELP a First.\n# TYPE a gauge\na 1\n# HELP b Second.\n# TYPE b counter\nb{x="y"} 2\n',
  );
});

test('a circuit is 0 in use, 1 being tried again, 2 left alone', () => {
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
