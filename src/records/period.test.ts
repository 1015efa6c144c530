import { describe, expect, test } from 'bun:test';
import { allTime, dayOf, isoDay, readDays, readMonth, readPeriod } from './period.ts';

const now = Date.UTC(2028, 1, 29, 15, 30);
const dayMs = 86_400_000;

describe('readPeriod', () => {
  test.each([
    ['2028-02-29', Date.UTC(2028, 1, 29)],
    ['2028-02-29T00:00:00Z', Date.UTC(2028, 1, 29)],
    ['2028-02-29T12:30', Date.UTC(2028, 1, 29, 12, 30)],
    ['2028-02-29T12:30:15.123456Z', Date.UTC(2028, 1, 29, 12, 30, 15, 123)],
    ['2028-02-29T01:00:00+02:00', Date.UTC(2028, 1, 28, 23)],
    ['2028-02-29T01:00:00 02:00', Date.UTC(2028, 1, 28, 23)],
    ['2028-02-28T22:30:00-0130', Date.UTC(2028, 1, 29)],
  ])('starts at the first millisecond of %s', (start, from) => {
    expect(readPeriod({ start, end: null })).toEqual({ from, until: allTime.until });
  });

  test('accepts dates before and after all records', () => {
    const { from, until } = readPeriod({ start: '0001-01-01', end: '9999-12-31' });
    expect(new Date(from).toISOString()).toBe('0001-01-01T00:00:00.000Z');
    expect(new Date(until - 1).toISOString()).toBe('9999-12-31T23:59:59.999Z');
  });

  test('includes the full day, minute, second, or millisecond of its end', () => {
    const until = (end: string) => readPeriod({ start: null, end }).until;
    expect(until('2027-12-31')).toBe(Date.UTC(2028, 0, 1));
    expect(until('2027-12-31T10:00Z')).toBe(Date.UTC(2027, 11, 31, 10, 1));
    expect(until('2027-12-31T10:00:07Z')).toBe(Date.UTC(2027, 11, 31, 10, 0, 8));
    expect(until('2027-12-31T10:00:07.5Z')).toBe(Date.UTC(2027, 11, 31, 10, 0, 7, 501));
  });

  test.each([
    '',
    'yesterday',
    '2027-02-29',
    '2028-02-30',
    '2028-13-01',
    '2028-00-10',
    '2028-2-3',
    '12028-01-01',
    '2028-02-29T24:00:00Z',
    '2028-02-29T10:60',
    '2028-02-29T10:00:60Z',
    '2028-02-29 10:00',
    '2028-02-29T10:00:00+24:00',
    '2028-02-29T10:00:00-01:60',
    '1709164800',
    '2028-02-29T10:00:00Zoom',
    "2028-02-29' or 1=1",
  ])('rejects %j as a start or end', (text) => {
    const invalid = { status: 400, symbol: 'invalid_request_error' };
    expect(errorOf(() => readPeriod({ start: text, end: null }))).toMatchObject({
      ...invalid,
      param: 'start_date',
    });
    expect(errorOf(() => readDays({ start: null, end: text }, now))).toMatchObject({
      ...invalid,
      param: 'end_date',
    });
  });

  test('accepts a single day or second and rejects a reversed range', () => {
    const day = '2028-02-29';
    expect(readPeriod({ start: day, end: day }).until).toBe(Date.UTC(2028, 2, 1));
    const time = '2028-02-29T10:00:00Z';
    const { from, until } = readPeriod({ start: time, end: time });
    expect(until - from).toBe(1000);
    const reversed = { start: '2028-03-01', end: day };
    expect(errorOf(() => readPeriod(reversed))).toMatchObject({ param: 'start_date' });
    expect(errorOf(() => readDays(reversed, now))).toMatchObject({ param: 'start_date' });
  });
});

describe('readDays', () => {
  const days = (start: string | null, end: string | null) => {
    const { first, last } = readDays({ start, end }, now);
    return [isoDay(first), isoDay(last)];
  };

  test.each([
    [null, null, '2028-02-22', '2028-02-29'],
    [null, '2028-03-01', '2028-02-23', '2028-03-01'],
    ['2028-02-28', null, '2028-02-28', '2028-02-29'],
    ['2028-02-28T23:59:59Z', '2028-03-01T00:00:00Z', '2028-02-28', '2028-03-01'],
    ['2028-02-28T23:00:00-02:00', '2028-02-29', '2028-02-29', '2028-02-29'],
    [null, '9999-12-31T23:00:00-02:00', '9999-12-25', '+010000-01-01'],
  ])('converts %p to %p into the days %s to %s', (start, end, first, last) => {
    expect(days(start, end)).toEqual([first, last]);
  });

  test('rejects more than 10 years', () => {
    const last = dayOf(now);
    const start = (count: number) => isoDay(last - count + 1);
    expect(days(start(3_660), null)[1]).toBe('2028-02-29');
    expect(errorOf(() => days(start(3_661), null))).toMatchObject({ status: 400 });
  });
});

describe('readMonth', () => {
  test.each([
    [null, Date.UTC(2028, 1), 29],
    ['2028-02', Date.UTC(2028, 1), 29],
    ['2027-12', Date.UTC(2027, 11), 31],
    ['2027-02', Date.UTC(2027, 1), 28],
  ])('returns the full month of %p', (text, from, days) => {
    expect(readMonth(text, now)).toEqual({ from, until: from + days * dayMs });
  });

  test.each([
    '',
    '2028',
    '2028-13',
    '2028-00',
    '2028-2',
    '0000-01',
    '9999-01',
    '2028-02-01',
    '2028-03',
  ])('rejects %j', (text) => {
    expect(errorOf(() => readMonth(text, now))).toMatchObject({ status: 400, param: 'month' });
  });
});

function errorOf(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  throw new Error('Expected an error.');
}
