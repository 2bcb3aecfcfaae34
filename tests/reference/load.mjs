// Copied beside node_modules: what is imported here is found there, as a user's own program would find it.
export default (name) => import(name);
