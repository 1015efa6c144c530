/**
 * What Anthropic's models know, told by their names. The catalogue says it of its own models; this
 * is for an operator's, which may come by way of Bedrock or Vertex under a longer name.
 */

export type EffortWords = Readonly<Record<string, string>>;

interface Generation {
  readonly names: RegExp;
  readonly thinking: 'adaptive' | 'budget';
  /** Left out where a word about efforts is refused. */
  readonly efforts?: EffortWords;
}

/** There is no word for `none`: a model that is told nothing of efforts decides by itself. */
export const usualEfforts: EffortWords = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
};

/** The first that fits. */
const generations: readonly Generation[] = [
  { names: /claude-opus-4[-.]5\b/, thinking: 'budget', efforts: usualEfforts },
  // The first models of 4 have their family last, too: `claude-4-sonnet`.
  { names: /claude-(?:3\b|(?:(?:opus|sonnet|haiku)-)?4\b(?![-.][6-9]\b))/, thinking: 'budget' },
  {
    names: /claude-\w+-4[-.]6\b/,
    thinking: 'adaptive',
    efforts: { ...usualEfforts, xhigh: 'max' },
  },
  {
    names: /claude-(?:haiku|(?:opus|sonnet)-(?:4|5(?![-.]\d\b)))/,
    thinking: 'adaptive',
    efforts: usualEfforts,
  },
  // Those that cannot be told not to think, and those that nobody knows yet.
  { names: /claude-/, thinking: 'adaptive', efforts: { none: 'low', ...usualEfforts } },
];

/** Undefined for models of others, which may know neither way. */
export function generationOf(upstreamModel: string): Generation | undefined {
  return generations.find(({ names }) => names.test(upstreamModel));
}
