package server

// Failed is why a group's server has lost the group's rows, "" where it has them.
func (s *Server) Failed() string {
	if st := s.lanes[0].chain.stats.Load(); st != nil {
		return st.Failed
	}
	return ""
}
