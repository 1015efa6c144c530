import { GatewayError, unavailable } from '../../core/errors.ts';
import { didYouMean } from '../../core/text.ts';

/** Named instructions. They are added to the system prompt of each request that names them. */
export interface Skill {
  readonly name: string;
  /** One line for people who choose a skill. Not sent to models. */
  readonly description: string;
  /** Markdown, as it is sent to the model. */
  readonly instructions: string;
}

/** A skill of a tenant. Times are epoch milliseconds. */
export interface StoredSkill extends Skill {
  readonly tenantId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Stores skills. Saving and removing a skill increments the directory's version. */
export interface SkillStore {
  /** Lists the skills of a tenant by name, without their instructions, which may be megabytes. */
  list(tenantId: string): Promise<readonly Omit<StoredSkill, 'instructions'>[]>;
  get(tenantId: string, name: string): Promise<StoredSkill | undefined>;
  /**
   * Saves a skill. If it replaces one of the same name, `createdAt` is kept. Returns undefined and
   * saves nothing if the tenant would have more than `countMax` skills.
   */
  put(skill: StoredSkill, countMax: number): Promise<StoredSkill | undefined>;
  remove(tenantId: string, name: string): Promise<boolean>;
}

/** Names must be valid in paths and comma-separated lists. */
export function isSkillName(text: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(text);
}

/** Writes the instructions of skills, each under its name, in the order requested. */
export function skillInstructions(skills: readonly Skill[]): string {
  return skills.map((skill) => `# Skill: ${skill.name}\n\n${skill.instructions}`).join('\n\n');
}

/** Returns the message for an unknown skill, with the closest known name. */
export function unknownSkillMessage(name: string, known: readonly string[]): string {
  const hint = didYouMean(name, known) || '.';
  return `There is no skill "${name.slice(0, 100)}"${hint}`;
}

export function throwSkillsUnavailable(cause: unknown): never {
  if (cause instanceof GatewayError) throw cause;
  throw unavailable("The skills can't be read right now. Try again shortly.", cause);
}
