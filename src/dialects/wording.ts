/**
 * Fields that are no part of what a request asks: its way is told by its chain of models and its
 * preferences, the same ones for all spellings. (What is undefined is no field.)
 */
export const wayUntold = {
  model: undefined,
  models: undefined,
  provider: undefined,
  route: undefined,
} as const;
