import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../../../tests/support/prompts.ts';
import { type Effort, efforts } from '../../../core/prompt.ts';
import { writeThinking } from './model.ts';

const optionsOf = (effort: Effort | null, budgetTokens: number | null = null, visible = false) => ({
  effort,
  budgetTokens,
  visible,
});

/** Google's levels and budgets by effort. */
const table: Readonly<Record<Effort, readonly [string, number]>> = {
  none: ['low', 0],
  minimal: ['low', 512],
  low: ['low', 1024],
  medium: ['medium', 8192],
  high: ['high', 24576],
  xhigh: ['high', 24576],
  max: ['high', 24576],
};

describe('writeThinking', () => {
  test.each(efforts)('writes the effort %s as a level or a budget', (effort) => {
    const [thinkingLevel, thinkingBudget] = table[effort];
    const written = (thinking: 'effort' | 'budget') =>
      writeThinking(optionsOf(effort), makeTarget({ thinking }));
    expect(written('effort')).toEqual({ thinkingLevel });
    expect(written('budget')).toEqual({ thinkingBudget });
  });

  test("uses the quirk's levels, and omits a level that the quirk lacks", () => {
    const quirks = { efforts: { none: 'minimal', low: 'low' } };
    const written = (effort: Effort) => writeThinking(optionsOf(effort), makeTarget({ quirks }));
    expect(written('none')).toEqual({ thinkingLevel: 'minimal' });
    expect(written('max')).toEqual({});
  });

  test.each([
    [1, 'low'],
    [2048, 'low'],
    [2049, 'medium'],
    [12000, 'medium'],
    [12001, 'high'],
  ])('writes %p tokens as the level %s', (tokens, thinkingLevel) => {
    expect(writeThinking(optionsOf(null, tokens), makeTarget())).toEqual({ thinkingLevel });
  });

  test("limits a budget to the model's range", () => {
    const flash = makeTarget({ thinking: 'budget' });
    const quirks = { efforts: { none: '128', low: '1024', high: '32768' } };
    const pro = makeTarget({ thinking: 'budget', quirks });
    const written = (tokens: number, target = flash) =>
      writeThinking(optionsOf(null, tokens), target);
    expect(written(5000)).toEqual({ thinkingBudget: 5000 });
    expect(written(99_999)).toEqual({ thinkingBudget: 24576 });
    expect(written(1, pro)).toEqual({ thinkingBudget: 128 });
    expect(written(99_999, pro)).toEqual({ thinkingBudget: 32768 });
    expect(writeThinking(optionsOf('none', 5000), flash)).toEqual({ thinkingBudget: 0 });
    expect(writeThinking(optionsOf('none'), pro)).toEqual({ thinkingBudget: 128 });
  });

  test('includes thoughts if the client requests reasoning and the model thinks', () => {
    const written = (effort: Effort | null) =>
      writeThinking(optionsOf(effort, null, true), makeTarget());
    expect(written(null)).toEqual({ includeThoughts: true });
    expect(written('high')).toEqual({ thinkingLevel: 'high', includeThoughts: true });
    expect(written('none')).toEqual({ thinkingLevel: 'low' });
  });

  test('returns undefined without reasoning options or for a model without reasoning', () => {
    expect(writeThinking(null, makeTarget())).toBeUndefined();
    expect(writeThinking(optionsOf('high'), makeTarget({ thinking: null }))).toBeUndefined();
  });
});
