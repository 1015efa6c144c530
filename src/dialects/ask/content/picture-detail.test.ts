import { expect, test } from 'bun:test';
import { question, targetOf } from '../../../../tests/support/question.ts';
import type { ImagePart } from '../../../core/dialogue.ts';
import { upstreamDialect } from '../../upstreams.ts';

const picture: ImagePart = { kind: 'image', url: 'data:image/png;base64,iVBORw0KGgo=' };

test.each([
  ['anthropic', ['detail']],
  ['bedrock', ['detail']],
  ['gemini', ['detail']],
  ['openai', []],
  ['openai-responses', []],
] as const)('of how closely %s is to look at a picture, %j is left out', (dialect, left) => {
  const droppedWith = (detail?: string) => {
    const asked = question({ turns: [{ role: 'user', parts: [{ ...picture, detail }] }] });
    return upstreamDialect(dialect)?.write(asked, targetOf()).dropped;
  };
  expect(droppedWith('low')).toEqual([...left]);
  expect(droppedWith('auto')).toEqual([]);
  expect(droppedWith()).toEqual([]);
});
