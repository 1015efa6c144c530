/**
 * How Anthropic's models think, found by their names. The catalogue says this of its models; the
 * table is for models that an operator adds, which Bedrock and Vertex call by longer names.
 */

export type EffortWords = Readonly<Record<string, string>>;

interface Generation {
  readonly names: RegExp;
  readonly thinking: 'adaptive' | 'budget';
  /** Left out for models that refuse a request with an effort. */
  readonly efforts?: EffortWords;
}

/** There is no word for `none`: a model that gets no effort decides by itself. */
export const usualEfforts: EffortWords = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
};

/** The first whose `names` match is the model's generation. */
const generations: readonly Generation[] = [
  { names: /claude-opus-4[-.]5\b/, thinking: 'budget', efforts: usualEfforts },
  // The first models of generation 4 may also have their family last: `claude-4-sonnet`.
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
  // Models whose thinking cannot be turned off, and models that are newer than this table.
  { names: /claude-/, thinking: 'adaptive', efforts: { none: 'low', ...usualEfforts } },
];

/** Undefined for other vendors' models, which may not think in either way. */
export function generationOf(upstreamModel: string): Generation | undefined {
  return generations.find(({ names }) => names.test(upstreamModel));
}
