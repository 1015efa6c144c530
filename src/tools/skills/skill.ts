import { GatewayError, unavailable } from '../../core/errors.ts';

/** A named instruction that the gateway adds to the system prompt of requests that ask for it. */
export interface Skill {
  readonly name: string;
  /** One line for people who choose among skills; models never see it. */
  readonly description: string;
  /** Markdown, as the model gets it. */
  readonly instructions: string;
}

/** A skill of a tenant's own. Times are epoch milliseconds. */
export interface StoredSkill extends Skill {
  readonly tenantId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The store that skills need. Saving and removing move the directory's version. */
export interface SkillStore {
  /** All skills of one tenant, by name, without their texts, which may be megabytes together. */
  list(tenantId: string): Promise<readonly Omit<StoredSkill, 'instructions'>[]>;
  get(tenantId: string, name: string): Promise<StoredSkill | undefined>;
  /**
   * Replaces the skill of that name and keeps its `createdAt`. Undefined, and nothing saved, when
   * the tenant would have more than `countMax`.
   */
  put(skill: StoredSkill, countMax: number): Promise<StoredSkill | undefined>;
  remove(tenantId: string, name: string): Promise<boolean>;
}

/** Short enough for a table, plain enough for a path and a comma-separated list. */
export function isSkillName(text: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(text);
}

/** What a model is told of skills: each under its name, in the order asked for. */
export function skillInstructions(skills: readonly Skill[]): string {
  return skills.map((skill) => `# Skill: ${skill.name}\n\n${skill.instructions}`).join('\n\n');
}

export function throwSkillsUnavailable(cause: unknown): never {
  if (cause instanceof GatewayError) throw cause;
  throw unavailable('The skills cannot be reached right now; try again shortly.', cause);
}
