import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../../../tests/support/prompts.ts';
import { type Effort, efforts } from '../../../core/prompt.ts';
import { writeThinking } from './model.ts';

const asked = (effort: Effort | null, budgetTokens: number | null = null, visible = false) => ({
  effort,
  budgetTokens,
  visible,
});

/** The two columns of Google's table. */
const table: Readonly<Record<Effort, readonly [string, number]>> = {
  none: ['low', 0],
  minimal: ['low', 512],
  low: ['low', 1024],
  medium: ['medium', 8192],
  high: ['high', 24576],
  xhigh: ['high', 24576],
  max: ['high', 24576],
};

describe('how much Gemini shall think', () => {
  test.each(efforts)('%s is a level or a budget, never both', (effort) => {
    const [thinkingLevel, thinkingBudget] = table[effort];
    const said = (thinking: 'effort' | 'budget') =>
      writeThinking(asked(effort), makeTarget({ thinking }));
    expect(said('effort')).toEqual({ thinkingLevel });
    expect(said('budget')).toEqual({ thinkingBudget });
  });

  test('is in the words of the model’s quirks; a level without a word is left out', () => {
    const quirks = { efforts: { none: 'minimal', low: 'low' } };
    const said = (effort: Effort) => writeThinking(asked(effort), makeTarget({ quirks }));
    expect(said('none')).toEqual({ thinkingLevel: 'minimal' });
    expect(said('max')).toEqual({});
  });

  test.each([
    [1, 'low'],
    [2048, 'low'],
    [2049, 'medium'],
    [12000, 'medium'],
    [12001, 'high'],
  ])('%p tokens are the level %s', (tokens, thinkingLevel) => {
    expect(writeThinking(asked(null, tokens), makeTarget())).toEqual({ thinkingLevel });
  });

  test('a budget stays within what the model takes', () => {
    const flash = makeTarget({ thinking: 'budget' });
    const quirks = { efforts: { none: '128', low: '1024', high: '32768' } };
    const pro = makeTarget({ thinking: 'budget', quirks });
    const said = (tokens: number, target = flash) => writeThinking(asked(null, tokens), target);
    expect(said(5000)).toEqual({ thinkingBudget: 5000 });
    expect(said(99_999)).toEqual({ thinkingBudget: 24576 });
    expect(said(1, pro)).toEqual({ thinkingBudget: 128 });
    expect(said(99_999, pro)).toEqual({ thinkingBudget: 32768 });
    expect(writeThinking(asked('none', 5000), flash)).toEqual({ thinkingBudget: 0 });
    expect(writeThinking(asked('none'), pro)).toEqual({ thinkingBudget: 128 });
  });

  test('thoughts are shown to clients that want to see them and have any', () => {
    const said = (effort: Effort | null) => writeThinking(asked(effort, null, true), makeTarget());
    expect(said(null)).toEqual({ includeThoughts: true });
    expect(said('high')).toEqual({ thinkingLevel: 'high', includeThoughts: true });
    expect(said('none')).toEqual({ thinkingLevel: 'low' });
  });

  test('nothing is sent if the client did not ask, or the model does not think', () => {
    expect(writeThinking(null, makeTarget())).toBeUndefined();
    expect(writeThinking(asked('high'), makeTarget({ thinking: null }))).toBeUndefined();
  });
});
