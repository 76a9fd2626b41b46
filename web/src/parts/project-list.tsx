import { useProjects } from '../api/projects';

/** The projects that there are, for a field in which one is named. */
export function ProjectList({ id }: { id: string }) {
  const { data = [] } = useProjects();
  return (
    <datalist id={id}>
      {data.map((each) => (
        <option key={each} value={each} />
      ))}
    </datalist>
  );
}
